import socket

from slipway.stack import ports


def test_earlier_ports_are_kept_while_they_are_free() -> None:
    first = ports.choose(["a", "b"], {}, [])

    assert ports.choose(["a", "b"], first, []) == first


def test_a_port_that_something_listens_on_is_replaced() -> None:
    first = ports.choose(["a", "b"], {}, [])
    with socket.create_server((ports.LOOPBACK, first["a"])):
        second = ports.choose(["a", "b"], first, [])

    assert second["a"] != first["a"]
    assert second["b"] == first["b"]


def test_a_port_whose_grpc_twin_is_taken_is_replaced() -> None:
    first = ports.choose(["a"], {}, [])
    with socket.create_server((ports.LOOPBACK, first["a"] + ports.GRPC_OFFSET)):
        assert ports.choose(["a"], first, []) != first


def test_ports_of_others_are_avoided_and_none_is_given_twice() -> None:
    taken = ports.choose([f"other{n}" for n in range(50)], {}, []).values()
    mine = ports.choose(["a", "b"], {"a": next(iter(taken))}, list(taken))

    assert not set(mine.values()) & set(taken)
    assert len(set(mine.values())) == 2
