"""The node's listening socket, and its settings."""

import socket

import pytest
from pydantic import ValidationError

from serving.agent.listener import address_of, listen
from serving.agent.state import StateDirectory, StateError
from serving.settings import node_settings


def test_a_free_port_is_picked_once_and_kept(state: StateDirectory) -> None:
    with listen("127.0.0.1:0", state) as first:
        port = first.getsockname()[1]
    with listen("127.0.0.1:0", state) as second:
        assert second.getsockname()[1] == port
        assert address_of(second) == f"127.0.0.1:{port}"


def test_a_port_that_is_taken_is_told(state: StateDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StateError, match=f"127.0.0.1:{port} is taken"):
            listen(f"127.0.0.1:{port}", state, patience_s=0)
        state.keep_port(port)
        with listen("127.0.0.1:0", state, patience_s=0) as bound:
            assert bound.getsockname()[1] != port


def test_arguments_stand_above_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_URL", "http://from-environment")
    monkeypatch.setenv("SLIPWAY_ENROL_TOKEN", "one-time-secret")
    monkeypatch.setenv("SLIPWAY_NODE_THREADS", "3")
    settings = node_settings(["--threads=2", "--label=zone=a", "--label=kind=cpu"])
    assert settings.registry == "http://from-environment"
    assert settings.threads == 2
    assert settings.labels == {"zone": "a", "kind": "cpu"}
    assert settings.enrol_token is not None
    assert "one-time-secret" not in settings.described()


def test_a_listen_address_without_a_port_is_refused() -> None:
    with pytest.raises(ValidationError, match="listen"):
        node_settings(["--listen=localhost"])
