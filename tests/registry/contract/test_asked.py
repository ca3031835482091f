"""What people send is read strictly; what is stored or answered is not."""

import json
from typing import Any

import pytest

from registry.contract.asked import Misread, parsed, read
from registry.contract.builds import BuildCreate
from registry.contract.deployments import Deployment, DeploymentCreate, Policy
from registry.contract.releases import Promote, RollBack
from registry.contract.versions import VersionCreate

DEPLOYMENT = {"environment": "prod", "name": "ants", "model": "ants"}
SIGNATURE = {"inputs": [{"name": "x", "dtype": "FP32", "shape": ["n", 4]}], "outputs": []}
FILE = {"path": "model.onnx", "digest": "sha256-" + "0" * 64, "size": 1}


def version(**changes: Any) -> dict[str, Any]:
    return {"framework": "onnx", "files": [FILE], "contract": {"signature": SIGNATURE}, **changes}


def wrong(kind: Any, body: Any) -> dict[str, str]:
    with pytest.raises(Misread) as refused:
        read(kind, json.dumps(body).encode())
    return {each.where: each.what for each in refused.value.errors}


@pytest.mark.parametrize(
    ("kind", "body", "where", "near"),
    [
        (
            DeploymentCreate,
            DEPLOYMENT | {"policy": {"auto_advnce": True}},
            "policy.auto_advnce",
            "auto_advance",
        ),
        (
            DeploymentCreate,
            DEPLOYMENT | {"policy": {"plan": [{"share": 10_000, "dwel_s": 1}]}},
            "policy.plan.0.dwel_s",
            "dwell_s",
        ),
        (DeploymentCreate, DEPLOYMENT | {"unit": {"kind": "key", "hedaer": "x"}}, "unit.hedaer", "header"),
        (
            BuildCreate,
            {"version": "ants@1", "recipe": {"tolerances": {"min_cosin": 1}}},
            "recipe.tolerances.min_cosin",
            "min_cosine",
        ),
        (VersionCreate, version(contract={"signature": SIGNATURE, "goldn": "g"}), "contract.goldn", "golden"),
        (
            VersionCreate,
            version(
                contract={
                    "signature": SIGNATURE,
                    "pipeline": {"post": [{"kind": "classify", "output": "y", "lables": []}]},
                }
            ),
            "contract.pipeline.post.0.classify.lables",
            "labels",
        ),
        (RollBack | None, {"reasn": "x"}, "reasn", "reason"),
    ],
)
def test_an_unknown_field_is_refused_at_every_depth_with_the_nearest_known_one(
    kind: Any, body: Any, where: str, near: str
) -> None:
    assert wrong(kind, body) == {where: f"there is no such field; did you mean {near}?"}


def test_an_unknown_field_that_is_like_none_tells_what_there_is() -> None:
    told = wrong(DeploymentCreate, DEPLOYMENT | {"unit": {"kind": "key", "zzz": "x"}})
    assert told == {"unit.zzz": "there is no such field; there are header, kind"}


def test_what_is_answered_may_have_fields_of_a_later_registry() -> None:
    policy = Policy.model_validate({"auto_advnce": True, "plan": [{"share": 10_000, "later": 1}]})
    assert policy.plan[0].share == 10_000
    assert "policy" in Deployment.model_fields


@pytest.mark.parametrize("size", [True, "1", 1.5, 2**63, -1])
def test_a_size_is_a_whole_number_that_can_be_stored(size: Any) -> None:
    assert list(wrong(VersionCreate, version(files=[FILE | {"size": size}]))) == ["files.0.size"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"a": 1,}', r"not JSON: .*\(line 1, column 8\)"),
        (b'{\n "a": tru}', r"not JSON: .*\(line 2, column 7\)"),
        (b'{"a": NaN}', r"not JSON: .*\(line 1, column 7\)"),
        (b'{"a":\n -Infinity}', r"not JSON: .*\(line 2, column 3\)"),
        (b'{"a": 1e999}', r"not JSON: .*infinity.*\(line 1, column 7\)"),
        (b'{\n"a": "\xff"}', r"not UTF-8 \(line 2, byte 7 of it\)"),
        (b"[" * 5000, r"not JSON: .*depth"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(content: bytes, told: str) -> None:
    with pytest.raises(Misread, match=told):
        parsed(content)


@pytest.mark.parametrize(
    "shares", [[500], [5_000, 500, 10_000], [10_000, 10_000], [], list(range(9_950, 10_001))]
)
def test_a_plan_of_a_promote_is_held_to_what_a_policy_is(shares: list[int]) -> None:
    plan = [{"share": share} for share in shares]
    assert list(wrong(Promote, {"version": "ants@1", "plan": plan})) == ["plan"]
    assert list(wrong(DeploymentCreate, DEPLOYMENT | {"policy": {"plan": plan}})) == ["policy.plan"]


def test_a_promote_without_a_plan_has_none() -> None:
    assert read(Promote, b'{"version": "ants@1"}').plan is None
