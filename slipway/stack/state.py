"""What a data directory remembers between starts: ports, secrets, and the processes of the last start."""

import secrets
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from slipway.stack.errors import StackError
from slipway.stack.identity import ProcessIdentity
from slipway.stack.write import write_private

_FILE_NAME = "stack.json"


def _secret() -> str:
    return secrets.token_hex(20)


class RunningServer(BaseModel):
    """A server process as it was started, with the signal that stops it."""

    identity: ProcessIdentity
    stop_signal: int


class StackState(BaseModel):
    """`ports` by server and purpose (`seaweed.s3`); `running` by server: left there only by a crash."""

    database_password: str = Field(default_factory=_secret)
    redis_password: str = Field(default_factory=_secret)
    s3_access_key: str = Field(default_factory=lambda: "slipway" + secrets.token_hex(8))
    s3_secret_key: str = Field(default_factory=_secret)
    ports: dict[str, int] = Field(default_factory=dict)
    running: dict[str, RunningServer] = Field(default_factory=dict)

    @classmethod
    def load(cls, data_dir: Path) -> "StackState":
        """The state of `data_dir`, or a new one with new secrets where there is none."""
        path = data_dir / _FILE_NAME
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            raise StackError(
                f"{path} is damaged: {error.errors()[0]['msg']}. It holds the passwords of the servers in "
                f"{data_dir}: restore it from a backup, or move {data_dir} away to start empty."
            ) from error

    def save(self, data_dir: Path) -> None:
        """Writes the state so that a crash leaves the old or the new one; only the owner can read it."""
        write_private(data_dir / _FILE_NAME, self.model_dump_json(indent=1).encode())
