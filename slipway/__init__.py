"""Slipway: register, build, release, watch, roll back.

`slipway.Client` is the Python client; the command line is `slipway`.
"""

from slipway.client import Client

__all__ = ["Client"]
