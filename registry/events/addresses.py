"""Where webhooks may go: a URL is given from outside, and must not lead into the registry's own network."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from registry.errors import Invalid

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]

NAT64 = IPv6Network("64:ff9b::/96")


class Refused(Exception):
    """The address is private and not allowed by the settings."""


def check_url(url: str, allowed: Networks) -> None:
    """Raises Invalid. Names are looked up at each attempt; only addresses are judged here."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Invalid(f"the webhook's URL can't be read: {error}", "write https://HOST/PATH") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid("the webhook's URL is not one of http or https", "write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise Invalid(
            "the webhook's URL holds a user or a password",
            "leave them out: the receiver checks the signature instead",
        )
    if parts.fragment or any(not 0x21 <= ord(letter) <= 0x7E for letter in url):
        raise Invalid(
            "the webhook's URL has a fragment, spaces or letters that are not ASCII",
            "leave the part behind # out, and write the rest percent-encoded",
        )
    address = literal(parts)
    if address is not None:
        try:
            check(address, allowed)
        except Refused as error:
            raise Invalid(str(error), "use a public address, or allow the network in the settings") from error


def literal(parts: SplitResult) -> Address | None:
    """The address that the URL names, if it names one and not a host."""
    try:
        return ip_address(parts.hostname or "")
    except ValueError:
        return None


def check(address: Address, allowed: Networks) -> None:
    """Raises Refused. An IPv4 address inside an IPv6 one is judged as itself."""
    real = _inner(address)
    if any(real in network for network in allowed):
        return
    if not real.is_global or real.is_multicast or real.is_reserved or real.is_unspecified:
        raise Refused(
            f"{address} is not a public address; SLIPWAY_WEBHOOK_NETWORKS says which private networks "
            "webhooks may reach"
        )


def _inner(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
