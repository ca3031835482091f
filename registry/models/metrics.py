"""Use cases of metrics: append-only numbers per version and data set."""

from collections.abc import Iterable

from registry.contract.pages import Page
from registry.contract.versions import Metric, MetricsAppend
from registry.datasets import service as datasets
from registry.edge.unit import Unit
from registry.errors import Invalid
from registry.models import service, version_queries
from registry.models.represent import represent_metric
from registry.tables.models import MetricRow, VersionRow


async def listing(unit: Unit, model: str, number: int) -> Page[Metric]:
    """The newest of each (data set, split, name, who measured through what)."""
    unit.principal.require_model(model)
    version = await service.version_row(unit.session, model, number)
    rows = await version_queries.metrics(unit.session, version.id)
    return Page(items=tuple(represent_metric(row) for row in rows))


async def append(unit: Unit, model: str, number: int, body: MetricsAppend) -> Page[Metric]:
    """Gives the metrics that count now. Raises NotFound for an unknown data set, Invalid."""
    unit.principal.require_model(model)
    version = await service.version_row(unit.session, model, number)
    for metric in body.metrics:
        if metric.low is not None and metric.high is not None and metric.low > metric.high:
            raise Invalid(
                f"the interval of {metric.name} is empty: {metric.low} > {metric.high}",
                "low is the lower end of the interval",
            )
    await datasets.require_known(unit.session, {metric.dataset for metric in body.metrics})
    add(unit, version, body.metrics)
    await unit.session.flush()
    unit.audit("metrics.append", version.subject, None, body)
    return await listing(unit, model, number)


def add(unit: Unit, version: VersionRow, metrics: Iterable[Metric]) -> None:
    """Records what was measured; the data sets are known, and whoever measured says so in the trail."""
    unit.session.add_all(
        MetricRow(
            version_id=version.id,
            dataset=metric.dataset.name,
            dataset_version=metric.dataset.version,
            split=metric.split,
            name=metric.name,
            value=metric.value,
            n=metric.n,
            higher_is_better=metric.higher_is_better,
            low=metric.low,
            high=metric.high,
            measured_by=metric.measured_by,
            engine=metric.engine,
            recorded_by=unit.actor,
        )
        for metric in metrics
    )
