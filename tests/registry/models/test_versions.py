"""Versions: numbers, checks, sealing, quarantine."""

import asyncio

import pytest

from registry.client import ApiError, access, models, versions
from registry.contract.tokens import Role
from registry.contract.versions import (
    BatchRule,
    Dtype,
    FileEntry,
    Lineage,
    ModelCreate,
    Observable,
    StageChange,
    TensorSpec,
    VersionContract,
    VersionStage,
)
from tests.registry.conftest import Registry
from tests.registry.support import (
    FILES,
    contract,
    declared,
    digest_of,
    entry,
    make_model,
    ready_version,
    run_sql,
    sent,
    stored,
    verify_all,
)


async def test_fifty_parallel_creates_give_fifty_numbers(registry: Registry) -> None:
    await make_model(registry)
    body = declared()
    made = await asyncio.gather(*(registry.client(versions.create("animals", body)) for _ in range(50)))
    assert sorted(version.number for version in made) == list(range(1, 51))
    assert (await registry.client(models.get("animals"))).latest_version == 50
    entries = await registry.client(access.audit(subject="version:animals@", limit=100))
    assert {(item.subject, item.after["number"]) for item in entries.items if item.after} == {
        (f"version:animals@{number}", number) for number in range(1, 51)
    }


async def test_what_is_read_back_is_what_was_made(registry: Registry) -> None:
    await make_model(registry)
    made = await registry.client(versions.create("animals", declared()))
    assert made == await registry.client(versions.get("animals", 1))
    assert (made.stage, made.revision, made.proven, made.created_by) == ("draft", 1, False, "admin")
    (audited,) = (await registry.client(access.audit(subject="version:animals@1"))).items
    assert audited.before is None
    assert type(made).model_validate(audited.after) == made


async def test_a_version_of_an_unknown_model_is_refused(registry: Registry) -> None:
    with pytest.raises(ApiError, match="there is no model nothing") as refused:
        await registry.client(versions.create("nothing", declared()))
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["../model.onnx"], "leaves the version's folder"),
        (["/etc/passwd"], "is absolute"),
        (["C:/model.onnx"], "is absolute"),
        (["a\\b.onnx"], "backslash"),
        (["a\nb"], "control characters"),
        (["a//b"], "empty segment"),
        (["a", "a"], "listed twice"),
        (["Model.onnx", "model.onnx"], "upper and lower case"),
        (["caf\u00e9", "cafe\u0301"], "other Unicode characters"),
        (["weights", "weights/part-1"], "is a file and the folder of"),
    ],
)
async def test_bad_file_names_are_refused(registry: Registry, paths: list[str], said: str) -> None:
    await make_model(registry)
    files = tuple(FileEntry(path=path, digest=digest_of(b"x"), size=1) for path in paths)
    with pytest.raises(ApiError, match=said) as refused:
        await registry.client(versions.create("animals", declared().model_copy(update={"files": files})))
    assert refused.value.status == 422
    assert refused.value.problem.hint
    assert (await registry.client(models.get("animals"))).latest_version is None


def _contract(**changes: object) -> VersionContract:
    return contract().model_copy(update=changes)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_contract(golden="golden.jsonl"), "golden names 'golden.jsonl', which is no file"),
        (
            _contract(observables=(Observable(name="label", kind="class", source="nope"),)),
            "the observable 'label' reads 'nope'",
        ),
        (
            _contract(observables=(Observable(name="score", kind="score", source="score"),) * 2),
            "two observables have the name 'score'",
        ),
        (contract(labels=("cat", "cat", "fox")), "classify lists the label 'cat' twice"),
        (
            _contract(
                signature=contract().signature.model_copy(
                    update={"inputs": (TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4)),) * 2}
                )
            ),
            "inputs name 'x' twice",
        ),
        (
            _contract(
                signature=contract().signature.model_copy(
                    update={"inputs": (TensorSpec(name="x", dtype=Dtype.FP32, shape=(1, 4)),)}
                ),
                batch=BatchRule(max_rows=8),
            ),
            "batch axis is fixed to 1",
        ),
        (
            _contract(
                signature=contract().signature.model_copy(
                    update={"inputs": (TensorSpec(name="x", dtype=Dtype.FP32, shape=()),)}
                )
            ),
            "'x' has no batch axis",
        ),
    ],
)
async def test_a_contract_that_does_not_fit_is_refused(
    registry: Registry, made: VersionContract, said: str
) -> None:
    await make_model(registry)
    with pytest.raises(ApiError) as refused:
        await registry.client(versions.create("animals", declared(made=made)))
    assert refused.value.status == 422
    assert any(said in reason for reason in refused.value.problem.reasons), refused.value.problem.reasons


async def test_the_digest_is_that_of_files_and_contract(registry: Registry) -> None:
    await make_model(registry)
    create = versions.create
    first = await registry.client(create("animals", declared()))
    same = await registry.client(create("animals", declared().model_copy(update={"description": "other"})))
    other = await registry.client(create("animals", declared(made=contract(labels=("a", "b", "c")))))
    assert first.digest == same.digest != other.digest


async def test_a_parent_must_exist(registry: Registry) -> None:
    await make_model(registry)
    body = declared().model_copy(update={"lineage": Lineage(parent_version=3)})
    with pytest.raises(ApiError, match="animals has no version 3"):
        await registry.client(versions.create("animals", body))


async def test_sealing_names_the_files_that_never_came(registry: Registry) -> None:
    await make_model(registry)
    await stored(registry, b"here")
    await registry.client(versions.create("animals", declared({"here.bin": b"here", "gone.bin": b"gone"})))
    with pytest.raises(ApiError, match=r"gone\.bin .*: it was never uploaded") as refused:
        await registry.client(versions.seal("animals", 1))
    assert refused.value.status == 409
    assert "here.bin" not in refused.value.problem.detail
    assert (await registry.client(versions.get("animals", 1))).stage == "draft"


async def test_sealing_waits_for_the_last_file(registry: Registry) -> None:
    await make_model(registry)
    files = {"a.bin": b"first", "b.bin": b"second"}
    await registry.client(versions.create("animals", declared(files)))
    for content in files.values():
        await sent(registry, content)
    assert (await registry.client(versions.seal("animals", 1))).stage == "verifying"
    assert (await registry.client(versions.seal("animals", 1))).stage == "verifying"
    assert await verify_all(registry) == 2
    sealed = await registry.client(versions.get("animals", 1))
    assert (sealed.stage, sealed.stage_reason) == ("ready", "")


async def test_wrong_bytes_reject_the_version_and_name_the_file(registry: Registry) -> None:
    await make_model(registry)
    await registry.client(versions.create("animals", declared()))
    (right,) = FILES.values()
    await sent(registry, b"X" * len(right), digest=digest_of(right))
    await registry.client(versions.seal("animals", 1))
    await verify_all(registry)
    rejected = await registry.client(versions.get("animals", 1))
    assert rejected.stage == "rejected"
    assert rejected.stage_reason.startswith("model.onnx: declared was ")
    assert digest_of(b"X" * len(right)) in rejected.stage_reason


async def test_a_size_that_is_not_the_blobs_rejects(registry: Registry) -> None:
    await make_model(registry)
    (content,) = FILES.values()
    await stored(registry, content)
    files = (entry("model.onnx", content).model_copy(update={"size": 7}),)
    await registry.client(versions.create("animals", declared().model_copy(update={"files": files})))
    sealed = await registry.client(versions.seal("animals", 1))
    assert (sealed.stage, sealed.stage_reason) == (
        "rejected",
        f"model.onnx has {len(content)} bytes, 7 were declared",
    )


async def test_golden_pairs_make_it_proven(registry: Registry) -> None:
    files = {**FILES, "golden.jsonl": b"{}"}
    version = await ready_version(registry, files=files, made=contract(golden="golden.jsonl"))
    assert version.proven


async def test_archive_and_quarantine(registry: Registry) -> None:
    version = await ready_version(registry)
    stale = StageChange(reason="old", expected_revision=version.revision - 1)
    with pytest.raises(ApiError, match="is at revision") as refused:
        await registry.client(versions.archive("animals", 1, stale))
    assert refused.value.status == 409
    archived = await registry.client(versions.archive("animals", 1, StageChange(reason="old")))
    assert (archived.stage, archived.stage_reason) == (VersionStage.ARCHIVED, "old")
    quarantined = await registry.client(versions.quarantine("animals", 1, StageChange(reason="leaks")))
    assert quarantined.stage == VersionStage.QUARANTINED
    with pytest.raises(ApiError, match="archive is not possible") as refused:
        await registry.client(versions.archive("animals", 1, StageChange(reason="again")))
    assert refused.value.kind == "guard-failed"


async def test_what_serves_is_not_archived_but_may_be_quarantined(registry: Registry) -> None:
    await ready_version(registry)
    await run_sql(
        registry,
        """INSERT INTO arms (id, version_id, precision, engines, pipeline, proven)
           SELECT 'arm-1', id, 'fp32', '{}', 'p', true FROM versions""",
    )
    await run_sql(
        registry,
        """INSERT INTO deployments (id, environment, name, model, selector, unit, policy, generation,
               last_release, stable_arm, pinned, pin_reason, created_by)
           VALUES ('dep_1', 'prod', 'zoo', 'animals', '{}', '{}', '{}', 1, 1, 'arm-1', false, '', 'me')""",
    )
    with pytest.raises(ApiError, match="deployment prod/zoo has it as its stable arm") as refused:
        await registry.client(versions.archive("animals", 1, StageChange(reason="old")))
    assert refused.value.kind == "referenced"
    quarantined = await registry.client(versions.quarantine("animals", 1, StageChange(reason="leaks")))
    assert quarantined.stage_reason == "leaks"
    assert quarantined.warnings == ("deployment prod/zoo has it as its stable arm",)


async def test_pages_newest_first(registry: Registry) -> None:
    await make_model(registry)
    for _ in range(5):
        await registry.client(versions.create("animals", declared()))
    first = await registry.client(versions.page("animals", limit=3))
    assert [version.number for version in first.items] == [5, 4, 3]
    last = await registry.client(versions.page("animals", page_token=first.next_page_token, limit=3))
    assert [version.number for version in last.items] == [2, 1]
    assert last.next_page_token is None
    with pytest.raises(ApiError, match="page_token was not made by this list"):
        await registry.client(versions.page("animals", page_token="bm9uc2Vuc2U="))


async def test_a_token_of_other_models_is_refused(registry: Registry) -> None:
    await ready_version(registry)
    stranger = await registry.as_role(Role.PUBLISHER, models=("plants",))
    with pytest.raises(ApiError, match="is limited to the models plants") as refused:
        await stranger(versions.get("animals", 1))
    assert refused.value.status == 404
    with pytest.raises(ApiError, match="is limited to the models plants"):
        await stranger(versions.create("animals", declared()))
    with pytest.raises(ApiError, match="is limited to the models plants"):
        await stranger(models.get("animals"))
    assert (await stranger(models.page())).items == ()
    await stranger(models.create(ModelCreate(name="plants")))
    assert [model.name for model in (await stranger(models.page())).items] == ["plants"]
