"""What is kept of addresses and secrets, and what a crash may leave of it."""

import json
from pathlib import Path

import pytest

from slipway.credentials import FILE, Credentials, find, keep, kept_secret, load


def test_a_secret_stays_the_same_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "admin-token"
    secret = kept_secret(path)
    assert kept_secret(path) == secret == path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("left", ["", "\n", "s", "slp_", "slp_" + "x" * 42])
def test_what_a_crash_left_of_a_secret_is_none(tmp_path: Path, left: str) -> None:
    path = tmp_path / "admin-token"
    path.write_text(left)
    secret = kept_secret(path)
    assert len(secret) == 47
    assert path.read_text() == secret


def test_a_secret_of_ones_own_is_kept_and_a_broken_one_named(tmp_path: Path) -> None:
    path = tmp_path / "admin-token"
    path.write_text("my-own-token\r\n")
    assert kept_secret(path) == "my-own-token"
    path.write_text("two words-SECRET")
    with pytest.raises(ValueError, match="admin-token is no token") as told:
        kept_secret(path)
    assert "SECRET" not in str(told.value)


def test_what_is_kept_is_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Credentials("http://127.0.0.1:9", "slp_kept")
    keep(tmp_path / FILE, kept)
    monkeypatch.delenv("SLIPWAY_URL", raising=False)
    monkeypatch.delenv("SLIPWAY_TOKEN", raising=False)
    assert find(tmp_path) == kept
    monkeypatch.setenv("SLIPWAY_TOKEN", " slp_other\r\n")
    assert find(tmp_path) == Credentials(kept.url, "slp_other")
    monkeypatch.setenv("SLIPWAY_URL", "http://elsewhere:8080/")
    monkeypatch.delenv("SLIPWAY_TOKEN")
    # The kept token is for the kept address alone.
    assert find(tmp_path) == Credentials("http://elsewhere:8080", "")


@pytest.mark.parametrize(
    "left", ["", "{", "[]", '{"url": "http://h"}', json.dumps({"url": "h", "token": "t"})]
)
def test_a_damaged_file_is_named(tmp_path: Path, left: str) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(left)
    with pytest.raises(ValueError, match=r"credentials\.json"):
        load(path)
