"""A line of the log: JSON, about one request, without secrets even where a message holds one."""

import json
import logging

import pytest

from registry import logs


def line(message: str, *values: object, **extra: object) -> dict[str, object]:
    record = logging.getLogger("test").makeRecord(
        "test", logging.INFO, "f", 1, message, values, None, extra=extra
    )
    made: dict[str, object] = json.loads(logs.JsonLines().format(record))
    return made


def test_a_line_names_its_request_and_an_access_line_its_facts() -> None:
    token = logs.request_id.set("req_1")
    try:
        assert line("it %s", "happened")["request_id"] == "req_1"
    finally:
        logs.request_id.reset(token)
    found = line("GET /v1/models 200", route="/v1/models", status=200, duration_ms=1.5, principal="ann")
    assert found["at"].endswith("Z")  # type: ignore[attr-defined]
    assert (found["route"], found["status"], found["principal"]) == ("/v1/models", 200, "ann")
    assert "request_id" not in found


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Bearer slp_abcdefghijklmnopqrstuvwxyz is not known", "slp_abcdefghijklmnop"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
        ("GET http://s3/b/k?X-Amz-Credential=me&X-Amz-Signature=0123abcd failed", "0123abcd"),
        ("can't reach postgresql://slipway:hunter2hunter2@127.0.0.1:5432/x", "hunter2"),
        ("redis://:hunter2hunter2@127.0.0.1:6379/0", "hunter2"),
    ],
)
def test_secrets_are_hidden(text: str, secret: str) -> None:
    found = str(line("%s", text)["message"])
    assert secret not in found
    assert "[hidden]" in found


def test_what_is_no_secret_stays() -> None:
    text = "prod/animals#3 of http://127.0.0.1:8080/v1 moved: the Authorization header is no bearer token"
    assert line("%s", text)["message"] == text
