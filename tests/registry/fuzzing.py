"""Every published operation, asked with what its description allows: no failure of ours, errors that help.

Bounded and seeded: the same requests at every run. Half of them go to things that exist.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import APIOperation, Case, GenerationMode, Response
from schemathesis.checks import CHECKS
from schemathesis.core.control import SkipTest
from schemathesis.specs.openapi.schemas import OpenApiSchema

from registry.contract.problems import Problem
from tests.chaos.server import ADMIN
from tests.upgrade.record import Stage

EXAMPLES = 2
_CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
# Waiting is a wish that a fuzzer grants itself; an endless stream never ends.
_STREAM = "text/event-stream"


def _known(stage: Stage) -> dict[str, list[Any]]:
    """Values for path parameters, by the names that they have in the description."""
    answers = [each.answer for each in stage.recorder.exchanges if isinstance(each.answer, dict)]

    def ids(prefix: str) -> list[str]:
        return sorted({each["id"] for each in answers if str(each.get("id", "")).startswith(prefix)})[:2]

    return {
        "model": ["animals"],
        "number": [1, 2],
        "alias": ["champion"],
        "name": ["animals", "holdout"],
        "environment": ["prod"],
        "version": [1],
        "build": ids("bld_"),
        "upload": ids("upl_"),
        "task": ids("tsk_"),
        "engine": ids("eng_"),
        "node": ids("nod_"),
        "rollback": ids("rbk_"),
        "digest": sorted({each["digest"] for each in answers if "digest" in each})[:1],
        "key": sorted({each["key"] for each in answers if "key" in each})[:1],
    }


def _operations(schema: OpenApiSchema) -> Iterator[APIOperation[Any, Any, Any, Any]]:
    for result in schema.get_all_operations():
        operation = result.ok()
        answers = operation.definition.raw["responses"].values()
        if not any(_STREAM in answer.get("content", {}) for answer in answers):
            yield operation


def _ask(case: Case, token: str | None) -> Response:
    for given_by in (case.query, case.body):
        if isinstance(given_by, dict) and "wait" in given_by:
            given_by["wait"] = 0
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return case.call(headers=headers, allow_redirects=False, timeout=20)


def _check(case: Case, response: Response) -> None:
    case.validate_response(response, checks=CHECKS.get_by_names(list(_CHECKED)))
    if response.status_code >= 400:
        _check_problem(response)


def _check_problem(response: Response) -> None:
    problem = Problem.model_validate_json(response.content)
    assert problem.status == response.status_code
    assert problem.type.startswith("/problems/")
    for text in (problem.title, problem.detail, problem.hint, problem.request_id):
        assert text
    assert response.headers["x-request-id"] == [problem.request_id]


def _drawn(strategy: SearchStrategy[Case], examples: int, ask: Callable[[Case], None]) -> None:
    """Asks by `examples` cases, the same at every run."""

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def every(case: Case) -> None:
        ask(case)

    every()


def _fuzz(operation: APIOperation[Any, Any, Any, Any], known: dict[str, list[Any]]) -> None:
    def allowed(case: Case) -> None:
        _check(case, _ask(case, ADMIN))

    names = [parameter.name for parameter in operation.iter_parameters() if parameter.location == "path"]
    if names and all(known.get(name) for name in names):
        place = {name: known[name][-1] for name in names}
        _drawn(operation.as_strategy(path_parameters=place), EXAMPLES, allowed)
    _drawn(operation.as_strategy(), EXAMPLES, allowed)


def _misuse(operation: APIOperation[Any, Any, Any, Any]) -> None:
    """What the description forbids is refused or ignored, and never a failure of ours."""

    def forbidden(case: Case) -> None:
        response = _ask(case, ADMIN)
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            _check_problem(response)

    # Where nothing of it can be got wrong.
    with suppress(SkipTest, Unsatisfiable):
        _drawn(operation.as_strategy(GenerationMode.NEGATIVE), EXAMPLES, forbidden)


def _without_token(operation: APIOperation[Any, Any, Any, Any]) -> None:
    """401 without a token, and with one that is not known, whatever else is wrong with the request."""

    def unknown(case: Case) -> None:
        for token in (None, "slp_of_nobody"):
            assert _ask(case, token).status_code == 401

    if operation.definition.raw.get("security"):
        _drawn(operation.as_strategy(), 1, unknown)


def faults(url: str, stage: Stage) -> dict[str, BaseException]:
    """What is wrong, by operation. `stage` has played the tour, so that there is one of everything."""
    known = _known(stage)
    found: dict[str, BaseException] = {}
    for operation in _operations(schemathesis.openapi.from_url(f"{url}/openapi.json")):
        try:
            _without_token(operation)
            _fuzz(operation, known)
            _misuse(operation)
        except (Exception, BaseExceptionGroup) as fault:
            found[operation.label] = fault
    return found
