"""Run by itself, with the magika package on its path: that package's own code makes the tensors and answers.

    python record.py INPUT_DIR OUTPUT.npz

INPUT_DIR holds files named by their keys. The output holds `keys`, `inputs` (int32[N, 2048]) and `scores`
(float32[N, classes]): what the *training* side says of these files, without any code of ours in between.
Nothing here imports this project.
"""

import sys
from pathlib import Path

import numpy as np
from magika import Magika
from magika.types import Seekable


def features_of(magika: Magika, path: Path) -> list[int]:
    """The model's input for one file."""
    settings = magika._model_config
    with path.open("rb") as stream:
        found = Magika._extract_features_from_seekable(
            Seekable(stream),
            settings.beg_size,
            settings.mid_size,
            settings.end_size,
            settings.padding_token,
            settings.block_size,
            settings.use_inputs_at_offsets,
        )
    return [*found.beg, *found.mid, *found.end]


def main(source: Path, output: Path, with_scores: bool) -> None:
    magika = Magika()
    keys, inputs, scores = [], [], []
    for path in sorted(source.iterdir()):
        keys.append(path.name)
        row = np.array([features_of(magika, path)], np.int32)
        inputs.append(row)
        if with_scores:
            scores.append(magika._onnx_session.run(["target_label"], {"bytes": row})[0])
    if with_scores:
        np.savez(output, keys=keys, inputs=np.concatenate(inputs), scores=np.concatenate(scores))
    else:
        np.savez(output, keys=keys, inputs=np.concatenate(inputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "--scores" in sys.argv[3:])
