"""Run in the torch environment: writes PyTorch versions that stay what they are into a folder."""

import sys
import warnings
from pathlib import Path

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SOURCE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.softmax(self.line(x), -1)


def build():
    return Net()
"""


class Packed(torch.nn.Module):
    """`ids`, `lengths` INT64 → FP32[batch, 3]. It packs its sequences, which no exporter brings to ONNX."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 8)
        self.lstm = torch.nn.LSTM(8, 8, batch_first=True)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        counts = lengths.reshape(-1).clamp(1, ids.size(1))
        packed = pack_padded_sequence(
            self.embed(ids.clamp(0, 31)), counts, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return torch.softmax(self.head(states.sum(1) / counts.unsqueeze(1)), -1)


def main(home: Path) -> None:
    torch.manual_seed(1)
    for name in ("script", "program", "source"):
        (home / name).mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Packed().eval()).save(str(home / "script" / "model.pt"))
    (home / "source" / "net.py").write_text(SOURCE)
    space: dict[str, object] = {}
    exec(SOURCE, space)  # the very text that is registered
    net = space["build"]().eval()  # type: ignore[operator]
    torch.save(net.state_dict(), home / "source" / "model.pt")
    rows = torch.export.Dim.AUTO
    program = torch.export.export(net, (torch.zeros(2, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(program, home / "program" / "model.pt2")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
