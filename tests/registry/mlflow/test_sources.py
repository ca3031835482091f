"""Where a version's files may be fetched from: nowhere but where the settings say."""

import pytest

from registry.errors import Invalid
from registry.mlflow.sources import (
    Bucket,
    Left,
    Logged,
    Registered,
    Run,
    Source,
    Tracked,
    check_allowed,
    read,
    server_of,
)
from registry.settings import Settings

NAMED = Settings(
    database_url="postgresql://nowhere",
    redis_url="redis://nowhere",
    s3_access_key="key",
    s3_secret_key="secret",
    mlflow_tracking_urls="http://mlflow:5000, https://user:word@other/mlflow/",  # type: ignore[arg-type]
    mlflow_s3_buckets="models",  # type: ignore[arg-type]
)
NOTHING = NAMED.model_copy(update={"mlflow_tracking_urls": (), "mlflow_s3_buckets": ()})
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("models:/iris/3", Registered("iris", 3, None)),
        ("models:/iris@champion", Registered("iris", None, "champion")),
        ("models:/m-0123abcd", Logged("m-0123abcd")),
        ("runs:/0123abcd/model", Run("0123abcd", "model")),
        ("mlflow-artifacts:/1/models/m-1/artifacts", Tracked(None, "1/models/m-1/artifacts")),
        ("mlflow-artifacts://mlflow:5000/1/x/", Tracked("http://mlflow:5000", "1/x")),
        (f"http://mlflow:5000{ARTIFACTS}/1/x", Tracked("http://mlflow:5000", "1/x")),
        (f"https://other/mlflow{ARTIFACTS}/1/x", Tracked("https://other/mlflow", "1/x")),
        (f"http://registry:8080{ARTIFACTS}/inbox/a/b%20c", Left("inbox/a/b c")),
        ("mlflow-artifacts:/inbox/a", Left("inbox/a")),
        ("s3://models/a/b/", Bucket("models", "a/b")),
    ],
)
def test_places(given: str, source: Source) -> None:
    assert read(given) == source


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("/root/mlruns/1/model", "a path of the client's machine"),
        ("file:///etc/passwd", "a path of the client's machine"),
        ("./model", "a path of the client's machine"),
        ("ftp://host/model", "a ftp address"),
        ("gs://bucket/model", "a gs address"),
        ("http://169.254.169.254/latest/meta-data", "not an address of MLflow artifacts"),
        ("mlflow-artifacts:/1/../../x", "leaves its place"),
        (f"http://mlflow:5000{ARTIFACTS}/1/%2e%2e/x", "leaves its place"),
        ("models:/iris/Production", "names no model"),
        ("runs:/../x", "names no run"),
        ("", "has 0 characters"),
    ],
)
def test_what_is_never_read(given: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read(given)


def test_only_named_servers_are_asked() -> None:
    assert server_of(Tracked(None, "x"), NAMED) == "http://mlflow:5000"
    assert server_of(Tracked("https://OTHER/mlflow", "x"), NAMED) == "https://user:word@other/mlflow"
    for server in ("http://mlflow:5001", "http://mlflow:5000.evil", "http://other", "http://127.0.0.1:22"):
        with pytest.raises(Invalid, match="not one of the tracking servers"):
            server_of(Tracked(server, "x"), NAMED)
    with pytest.raises(Invalid, match="no tracking server is named"):
        server_of(Tracked(None, "x"), NOTHING)


def test_only_named_buckets_are_read() -> None:
    check_allowed(Bucket("models", "a"), NAMED)
    with pytest.raises(Invalid, match="not one of the buckets"):
        check_allowed(Bucket("slipway", "a"), NAMED)


@pytest.mark.parametrize("source", [Logged("m-1"), Run("1", "model")])
def test_what_no_server_can_know_is_refused_at_once(source: Logged | Run) -> None:
    check_allowed(source, NAMED)
    with pytest.raises(Invalid, match=r"no files of .*1 were left here"):
        check_allowed(source, NOTHING)
