"""Environments of their own for heavy frameworks, each a thin layer over the one that the worker runs in."""
