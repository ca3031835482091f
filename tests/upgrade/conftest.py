"""The settings of a registry of this test's own, as the registry's own tests have them."""

from tests.registry.conftest import settings

__all__ = ["settings"]
