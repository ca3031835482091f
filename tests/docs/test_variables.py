"""The list of environment variables holds what the processes read, no more and no less."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from registry.client.variables import KNOWN, PREFIX, strangers, wrong
from serving.gateway.settings import GatewaySettings
from tests.docs import settings_page

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("slipway", "registry", "builder", "serving", "web", "bench")
NAME = re.compile(r"""["'](SLIPWAY_[A-Z0-9_]*[A-Z0-9])["']""")


def test_the_list_is_what_settings_and_sources_read() -> None:
    kinds = [kind for _, _, kind in settings_page.PROCESSES] + [GatewaySettings]
    settings = {
        name
        for kind in kinds
        for field, described in kind.model_fields.items()
        for name in re.findall(r"SLIPWAY_\w+", settings_page.variable(kind, field, described))
    }
    listed = ROOT / "registry" / "client" / "variables.py"
    files = [path for room in SOURCES for path in (ROOT / room).rglob("*.py") if path != listed]
    read = {name for path in files for name in NAME.findall(path.read_text())}
    assert set(KNOWN) == settings | read
    assert all(name.startswith(PREFIX) for name in KNOWN)


def test_a_misspelt_variable_is_told_with_the_nearest_one() -> None:
    environ = {"SLIPWAY_MAX_BODY_BYTE": "1", "SLIPWAY_XYZZY": "1", "SLIPWAY_URL": "x", "PATH": "/bin"}
    assert strangers(environ) == [
        "SLIPWAY_MAX_BODY_BYTE is not a setting and is ignored; did you mean SLIPWAY_MAX_BODY_BYTES?",
        "SLIPWAY_XYZZY is not a setting and is ignored; docs/settings.md lists those that are",
    ]


def test_a_wrong_setting_is_told_by_its_variable_and_value_but_for_secrets() -> None:
    class Some(BaseSettings):
        model_config = SettingsConfigDict(env_prefix="SLIPWAY_", populate_by_name=True)
        look_every_s: float = Field(gt=0)
        database_url: SecretStr = Field(validation_alias=AliasChoices("DATABASE_URL", "database_url"))
        token: SecretStr = Field(max_length=3)

    with pytest.raises(ValidationError) as caught:
        Some(look_every_s="abc", token="SECRET")
    told = wrong(Some, caught.value)
    assert told[0].startswith("SLIPWAY_LOOK_EVERY_S=abc: Input should be a valid number")
    assert "DATABASE_URL is not set; it must be" in told
    assert any(sentence.startswith("SLIPWAY_TOKEN: ") for sentence in told)
    assert "SECRET" not in " ".join(told)


@pytest.mark.parametrize(
    ("module", "variable"),
    [
        ("slipway.server", "SLIPWAY_LOOK_EVERY_S"),
        ("builder.worker --queues cpu", "SLIPWAY_CACHE_GIB"),
        ("serving.node", "SLIPWAY_NODE_THREADS"),
    ],
)
def test_a_process_names_what_is_wrong_and_ends_as_one_that_need_not_be_started_again(
    module: str, variable: str
) -> None:
    needed = ("DATABASE_URL", "REDIS_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    done = subprocess.run(
        [sys.executable, "-m", *module.split()],
        env={**os.environ, **dict.fromkeys(needed, "x"), variable: "abc"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == os.EX_CONFIG
    assert f"{variable}=abc: Input should be a valid" in done.stderr
    assert "Traceback" not in done.stderr
