"""Routing units that no request could be routed by."""

import pytest

from registry.contract.routes import RoutingUnit
from registry.lifecycle.units import unit_faults


@pytest.mark.parametrize("unit", [RoutingUnit(), RoutingUnit(kind="key", header="X-User-Id")])
def test_what_can_be_routed_by_has_no_fault(unit: RoutingUnit) -> None:
    assert unit_faults(unit) == ()


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        (RoutingUnit(kind="key"), "needs the header"),
        (RoutingUnit(header="x-user-id"), "takes no header"),
        (RoutingUnit(kind="key", header=""), "no header's name"),
        (RoutingUnit(kind="key", header="x y\r\n: é"), "no header's name"),
        (RoutingUnit(kind="key", header="x" * 129), "no header's name"),
    ],
)
def test_what_cannot_is_told(unit: RoutingUnit, told: str) -> None:
    (fault,) = unit_faults(unit)
    assert told in fault
