"""Aliases: history, compare-and-set, reserved names."""

import asyncio

import pytest

from registry.client import ApiError, models, versions
from registry.lifecycle.aliases import alias_fault
from tests.registry.conftest import Registry
from tests.registry.support import declared, make_model


async def _two_versions(registry: Registry) -> None:
    await make_model(registry)
    for _ in range(2):
        await registry.client(versions.create("animals", declared()))


async def test_the_history_tells_who_moved_it_from_where_to_where(registry: Registry) -> None:
    await _two_versions(registry)
    await registry.client(models.set_alias("animals", "champion", 1))
    await registry.client(models.set_alias("animals", "champion", 2, reason="better on valset"))
    assert (await registry.client(models.alias("animals", "champion"))).version == 2
    await registry.client(models.delete_alias("animals", "champion"))
    first = await registry.client(models.alias_history("animals", "champion", limit=2))
    rest = await registry.client(models.alias_history("animals", "champion", first.next_page_token))
    changes = (*first.items, *rest.items)
    assert [(change.before, change.after) for change in changes] == [(2, None), (1, 2), (None, 1)]
    assert [change.reason for change in changes] == ["", "better on valset", ""]
    assert {(change.by, change.via) for change in changes} == {("admin", "API")}
    assert changes[0].at > changes[1].at > changes[2].at
    for call in (models.alias("animals", "champion"), models.alias_history("animals", "challenger")):
        with pytest.raises(ApiError, match="animals has no alias") as refused:
            await registry.client(call)
        assert refused.value.status == 404


async def test_only_what_was_seen_is_moved(registry: Registry) -> None:
    await _two_versions(registry)
    with pytest.raises(ApiError, match="does not exist; the request expected version 1") as refused:
        await registry.client(models.set_alias("animals", "champion", 2, expected_version=1))
    assert refused.value.status == 409
    await registry.client(models.set_alias("animals", "champion", 1, expected_version=0))
    with pytest.raises(ApiError, match="names version 1; the request expected to be new"):
        await registry.client(models.set_alias("animals", "champion", 2, expected_version=0))
    await registry.client(models.set_alias("animals", "champion", 2, expected_version=1))
    with pytest.raises(ApiError, match="names version 2; the request expected version 1"):
        await registry.client(models.delete_alias("animals", "champion", expected_version=1))
    await registry.client(models.delete_alias("animals", "champion", expected_version=2))


async def test_of_many_who_expect_it_to_be_new_one_wins(registry: Registry) -> None:
    await _two_versions(registry)

    async def set_alias(version: int) -> int:
        try:
            made = await registry.client(models.set_alias("animals", "champion", version, expected_version=0))
        except ApiError as error:
            assert error.status == 409
            return 0
        return made.version

    answers = await asyncio.gather(*(set_alias(1 + at % 2) for at in range(10)))
    (winner,) = [version for version in answers if version]
    assert (await registry.client(models.alias("animals", "champion"))).version == winner
    (change,) = (await registry.client(models.alias_history("animals", "champion"))).items
    assert (change.before, change.after) == (None, winner)


async def test_reserved_names_are_refused(registry: Registry) -> None:
    await _two_versions(registry)
    for name in ("latest", "7", "v12"):
        with pytest.raises(ApiError, match=f"{name} is reserved") as refused:
            await registry.client(models.set_alias("animals", name, 1))
        assert refused.value.status == 422
    assert [alias_fault(name) for name in ("v1-final", "latest-good", "vx", "1a")] == [None] * 4
