"""The pure rules: ids, patterns, pauses, addresses, signatures."""

from ipaddress import ip_address, ip_network

import pytest

from registry.contract.events import EVENT, EVENT_TYPES, OtherEvent, parse_event_id
from registry.contract.webhooks import SECRET_PREFIX, sign, verified
from registry.errors import Invalid
from registry.events.addresses import Refused, check, check_url
from registry.events.backoff import pause_s
from registry.events.filters import matches

SECRET = SECRET_PREFIX + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_ids_are_ordered_by_timeline_then_number() -> None:
    ids = [parse_event_id(text) for text in ("1-9", "1-10", "2-1")]
    assert ids == sorted(ids)
    assert [str(each) for each in ids] == ["1-9", "1-10", "2-1"]
    for wrong in ("", "7", "0-1", "1-", "1-1-1", "1-x", "-1"):
        with pytest.raises(ValueError, match="is not an event's id"):
            parse_event_id(wrong)


def test_an_event_of_a_newer_registry_is_read_as_far_as_it_goes() -> None:
    told = EVENT.validate_python(
        {
            "id": "1-1",
            "type": "release.applauded",
            "subject": "release:prod/a#1",
            "at": "2030-01-01T00:00:00Z",
            "actor": "a",
            "data": {"loudly": True},
        }
    )
    assert isinstance(told, OtherEvent)
    assert told.data.model_dump() == {"loudly": True}
    assert "release.phase_changed" in EVENT_TYPES


def test_patterns() -> None:
    assert matches("release.stepped", ["node.lost", "release.*"])
    assert matches("prod/a", ["prod/a"])
    assert not matches("prod/ab", ["prod/a", "dev/*"])
    assert not matches(None, ["prod/*"])


def test_pauses_double_up_to_a_bound_and_never_end() -> None:
    assert [pause_s(n, 5, 3600, 0.999) for n in (1, 2, 3)] == pytest.approx([5, 10, 20], rel=0.01)
    assert pause_s(1, 5, 3600, 0) == 2.5
    assert 1800 <= pause_s(10_000, 5, 3600, 0.5) <= 3600


@pytest.mark.parametrize(
    "private",
    [
        "127.0.0.1",
        "10.0.0.7",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fd00::1",
        "fe80::1",
        "::ffff:10.0.0.7",
        "64:ff9b::a00:7",
        "2002:a00:7::",
    ],
)
def test_private_addresses_are_refused_in_every_spelling(private: str) -> None:
    with pytest.raises(Refused, match="SLIPWAY_WEBHOOK_NETWORKS"):
        check(ip_address(private), ())


def test_public_and_allowed_addresses_pass() -> None:
    check(ip_address("93.184.216.34"), ())
    check(ip_address("2606:2800:220:1:248:1893:25c8:1946"), ())
    check(ip_address("::ffff:10.0.0.7"), (ip_network("10.0.0.0/8"),))
    with pytest.raises(Refused):
        check(ip_address("169.254.169.254"), (ip_network("10.0.0.0/8"),))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.org/", "not one of http"),
        ("https:///path", "not one of http"),
        ("https://user:secret@example.org/", "user or a password"),
        ("https://example.org/#part", "fragment"),
        ("https://example.org/a b", "spaces"),
        ("https://example.org:99999/", "can't be read"),
        ("http://[::1]/", "not a public address"),
        ("http://127.0.0.1:80/", "not a public address"),
    ],
)
def test_urls_that_lead_to_no_good_place(url: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        check_url(url, ())


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The vector of the Standard Webhooks specification."""
    body = b'{"test": 2432232314}'
    made = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"v1,AAAA {made}",
    }
    assert verified(SECRET, headers, body, 1614265330 + 299)
    assert not verified(SECRET, headers, body, 1614265330 + 301), "an old message that someone kept"
    assert not verified(SECRET, headers, body + b" ", 1614265330)
    assert not verified(SECRET, headers | {"webhook-timestamp": "1614265331"}, body, 1614265330)
    assert not verified(SECRET, {}, body, 1614265330)
