"""The call on capacity."""

from registry.client.call import Call, path, query
from registry.contract.capacity import Capacity


def capacity(
    deployment: str,
    peak_rps: float,
    p99_ms: float,
    version: str | None = None,
    price_per_hour: float | None = None,
) -> Call[Capacity]:
    """What the deployment's pool carries, with what serves or with `version`."""
    return Call(
        "GET",
        path("capacity"),
        Capacity,
        query=query(
            deployment=deployment,
            peak_rps=peak_rps,
            p99=p99_ms,
            version=version,
            price_per_hour=price_per_hour,
        ),
    )
