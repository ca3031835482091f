"""Inputs of a step by reference, for `reproduce` lines."""

from pathlib import Path

from builder.settings import settings
from builder.steps.step import Refused
from builder.store import Store
from registry.client import Client, datasets, versions
from registry.contract.identity import parse_version


def fetch(where: str, folder: Path) -> Path:
    """`sha256-…`, `dataset:NAME@VERSION` or `version:MODEL@NUMBER` → a file or folder.

    Raises Refused, and what the registry's client raises.
    """
    asked = settings()
    with Client(asked.registry_url, asked.token.get_secret_value()) as client:
        store = Store(asked.work_dir, client)
        kind, colon, reference = where.partition(":")
        if not colon:
            return store.blob(where)
        try:
            named = parse_version(reference)
        except ValueError as error:
            raise Refused(f"{where!r} is no input: {error}") from error
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "dataset":
            return store.lay_out_dataset(client(datasets.get(named.model, named.number)), folder)
        return store.lay_out(client(versions.get(named.model, named.number)).files, folder)
