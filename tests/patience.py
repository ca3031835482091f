"""HTTP clients that wait: how long an answer takes is for benchmarks, a busy machine fails no test."""

from typing import Any

import httpx

PATIENCE_S = 60.0


def async_client(**options: Any) -> httpx.AsyncClient:
    """With `options` as httpx takes them; never by a proxy of the environment."""
    return httpx.AsyncClient(**{"trust_env": False, "timeout": PATIENCE_S, **options})


def client(**options: Any) -> httpx.Client:
    """The same for threads."""
    return httpx.Client(**{"trust_env": False, "timeout": PATIENCE_S, **options})
