"""The world of these tests."""

from tests.web.world import world

__all__ = ["world"]
