"""Figures of a run, for people. As JSON they are printed by `bench.__main__` alone: one document each."""

from collections.abc import Mapping


def table(figures: Mapping[str, object]) -> None:
    """A line each."""
    for name, value in figures.items():
        print(f"{name:32} {value:12.3f}" if isinstance(value, float) else f"{name:32} {value}")
