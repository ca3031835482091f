"""Every row class, imported: what migrations compare the schema with."""

from registry.tables import (
    access,
    builds,
    datasets,
    deployments,
    events,
    journal,
    mlflow,
    models,
    nodes,
    registry,
    releases,
    retention,
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
    "events",
    "journal",
    "metadata",
    "mlflow",
    "models",
    "nodes",
    "registry",
    "releases",
    "retention",
    "tasks",
    "uploads",
]
