from pathlib import Path

import pytest

from slipway.stack import StackError
from slipway.stack.state import StackState


def test_a_new_directory_gets_secrets_of_its_own(tmp_path: Path) -> None:
    one, two = StackState.load(tmp_path), StackState.load(tmp_path)

    assert one.database_password != two.database_password
    assert one.s3_secret_key != two.s3_secret_key


def test_what_is_saved_is_read_again_and_only_the_owner_can_read_it(tmp_path: Path) -> None:
    state = StackState(ports={"postgres.sql": 12345})
    state.save(tmp_path)

    assert StackState.load(tmp_path) == state
    assert (tmp_path / "stack.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["stack.json"]


def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{half")

    with pytest.raises(StackError, match=r"stack\.json is damaged.*move .* away"):
        StackState.load(tmp_path)
    assert (tmp_path / "stack.json").read_text() == "{half"
