"""The command line: `slipway OBJECT VERB`. Data alone on stdout, progress and hints on stderr."""

from slipway.cli.app import main

__all__ = ["main"]
