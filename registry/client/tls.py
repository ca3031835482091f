"""What every client of this process trusts."""

import ssl
from functools import cache

import httpx


@cache
def tls() -> ssl.SSLContext:
    """Made once: reading the authorities' certificates takes longer than moving a small file."""
    return httpx.create_ssl_context(trust_env=False)
