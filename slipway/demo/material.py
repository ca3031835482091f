"""What the demo works on: data sets, golden pairs and traffic, of real files and the training side's code."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from registry.contract.recipes import Tolerances
from registry.contract.versions import DatasetRef
from slipway.client import Client
from slipway.demo import data
from slipway.demo.assets import Assets
from slipway.demo.data import Recorded
from slipway.demo.files import Sample, Samples

# The fault "errors" fails on inputs that begin with a byte above this: careless people try text only.
LAST_TEXT_BYTE = 125


@dataclass(frozen=True)
class Judges:
    """What a build is made and judged with. `max_loss`: of its validation gate."""

    calibration: DatasetRef
    validation: DatasetRef
    max_loss: float = Tolerances().max_loss


@dataclass(frozen=True)
class Material:
    """`top1`: accuracy on all of the validation set as the training side's own code measured it."""

    all: Judges
    text: Judges
    golden: Path
    inputs: Path
    top1: float
    rows: int


def make(client: Client, assets: Assets, samples: Samples, folder: Path) -> Material:
    """Writes, records and uploads everything. `folder` must not hold an earlier run's files."""
    folder.mkdir(parents=True)
    recorded = _record(assets, samples.validation, folder, "validation")
    golden = _record(assets, samples.golden, folder, "golden")
    truth = {sample.key: sample.label for sample in samples.validation}
    assert recorded.scores is not None
    named = [assets.labels[int(at)] for at in recorded.scores.argmax(axis=1)]
    right = sum(label == truth[key] for key, label in zip(recorded.keys, named, strict=True))
    text = _text_only(recorded)
    named_text = set(_text_only(_record(assets, samples.calibration, folder, "calibration")).keys)
    text_samples = tuple(sample for sample in samples.calibration if sample.key in named_text)
    return Material(
        all=Judges(
            calibration=_calibration(client, samples.calibration, folder, "calibration"),
            validation=_tensors(client, samples.validation, recorded, folder, "validation"),
        ),
        text=Judges(
            calibration=_calibration(client, text_samples, folder, "text-calibration"),
            validation=_tensors(client, samples.validation, text, folder, "text-validation"),
        ),
        golden=data.write_golden(samples.golden, golden, assets.labels, folder / "golden.jsonl"),
        inputs=data.write_inputs(samples.traffic, folder / "traffic"),
        top1=right / len(recorded.keys),
        rows=len(recorded.keys),
    )


def _record(assets: Assets, samples: tuple[Sample, ...], folder: Path, name: str) -> Recorded:
    inputs = data.write_inputs(samples, folder / f"{name}-raw")
    return data.record(assets, inputs, folder / f"{name}.npz", scores=True)


def _text_only(recorded: Recorded) -> Recorded:
    keep = np.flatnonzero(recorded.inputs[:, 0] <= LAST_TEXT_BYTE)
    return Recorded(tuple(recorded.keys[at] for at in keep), recorded.inputs[keep], None)


def _calibration(client: Client, samples: tuple[Sample, ...], folder: Path, name: str) -> DatasetRef:
    shard = data.write_raw_shard(samples, folder / f"{name}.tar")
    index = data.write_index(samples, "calibration", folder / f"{name}.jsonl")
    made = client.dataset(
        f"filetype-{name}",
        "calibration",
        "raw",
        {shard.name: shard},
        index,
        len(samples),
        provenance="files of this machine's Python installation",
    )
    return made.ref


def _tensors(
    client: Client, samples: tuple[Sample, ...], recorded: Recorded, folder: Path, name: str
) -> DatasetRef:
    keys = set(recorded.keys)
    kept = [sample for sample in samples if sample.key in keys]
    shard = data.write_tensor_shard(recorded, folder / f"{name}-tensors.npz")
    index = data.write_index(kept, "validation", folder / f"{name}.jsonl")
    made = client.dataset(
        f"filetype-{name}",
        "validation",
        "tensors",
        {shard.name: shard},
        index,
        len(kept),
        provenance="files of this machine's Python installation; tensors by the magika package's own code",
    )
    return made.ref
