"""Every row class, imported: what migrations compare the schema with."""

from registry.tables import (
    access,
    builds,
    datasets,
    deployments,
    journal,
    models,
    nodes,
    registry,
    releases,
    tasks,
    uploads,
)
from registry.tables.base import Row

metadata = Row.metadata

__all__ = [
    "access",
    "builds",
    "datasets",
    "deployments",
    "journal",
    "metadata",
    "models",
    "nodes",
    "registry",
    "releases",
    "tasks",
    "uploads",
]
