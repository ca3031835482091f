"""Trains the detector of shapes in the torch environment: `python -m bench.models.shapes_training OUT.pt2`.

Always the same weights: the seed, the threads and the rows are given.
"""

import sys

import numpy as np
import torch
from torch import nn

from bench.models.shapes import CELLS, KINDS, SIDE, STRIDE, drawn

STEPS, ROWS = 300, 8


class Detector(nn.Module):
    """image FP32[n, 1, 640, 640] → FP32[n, 400, 4 + kinds]: centre, size (pixels) and scores of each cell,
    side by side as YOLO's heads give them."""

    def __init__(self) -> None:
        super().__init__()
        # The last ones look beyond their cell: a shape covers up to seven of them.
        sizes = ((1, 12, 4), (12, 24, 2), (24, 48, 2), (48, 64, 2), (64, 64, 1), (64, 64, 1), (64, 64, 1))
        layers: list[nn.Module] = []
        for given, made, stride in sizes:
            layers += [
                nn.Conv2d(given, made, 4 if stride == 4 else 3, stride, padding=0 if stride == 4 else 1),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(64, 4 + len(KINDS), 1)
        ys, xs = torch.meshgrid(torch.arange(CELLS), torch.arange(CELLS), indexing="ij")
        self.register_buffer("corners", torch.stack([xs, ys]).float().reshape(1, 2, -1) * STRIDE)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        raw = self.head(self.body(image)).flatten(2)
        centres = torch.sigmoid(raw[:, :2]) * STRIDE + self.corners
        sizes = torch.sigmoid(raw[:, 2:4]) * (SIDE / 2)
        return torch.cat([centres, sizes, torch.sigmoid(raw[:, 4:])], 1).transpose(1, 2)


def loss(found: torch.Tensor, truths: list[list[tuple[int, list[float]]]]) -> torch.Tensor:
    """Scores of all cells; places of those in which a shape has its centre."""
    scores = torch.zeros(len(truths), CELLS**2, len(KINDS))
    apart = found.new_zeros(())
    for row, shapes in enumerate(truths):
        for kind, (left, top, right, bottom) in shapes:
            x, y = (left + right) / 2, (top + bottom) / 2
            cell = int(y // STRIDE) * CELLS + int(x // STRIDE)
            scores[row, cell, kind] = 1
            box = torch.tensor([x, y, right - left, bottom - top])
            apart = apart + (found[row, cell, :4] - box).abs().mean() / STRIDE
    weights = 1 + 6 * scores.amax(2, keepdim=True)
    crossed = nn.functional.binary_cross_entropy(found[..., 4:], scores, weight=weights.expand_as(scores))
    return crossed * 50 + apart / len(truths)


def main(path: str) -> None:
    torch.manual_seed(3)
    torch.set_num_threads(2)
    model = Detector()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, STEPS)
    for step in range(STEPS):
        rows = [drawn(10_000 + step * ROWS + at) for at in range(ROWS)]
        images = torch.from_numpy(np.stack([pixels for pixels, _ in rows])[:, None].astype(np.float32) / 255)
        found = loss(model(images), [shapes for _, shapes in rows])
        optimiser.zero_grad()
        found.backward()
        optimiser.step()
        schedule.step()
        if step % 20 == 0:
            print(step, round(found.item(), 3), flush=True)
    rows_vary = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(model.eval(), (torch.zeros(2, 1, SIDE, SIDE),), dynamic_shapes=(rows_vary,))
    torch.export.save(program, path)


if __name__ == "__main__":
    main(sys.argv[1])
