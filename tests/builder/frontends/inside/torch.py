"""PyTorch models of each kind, imported in the torch environment: `python -m … HOME SILERO.jit
SILERO.onnx`."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from builder.steps.engines import opened
from registry.contract.recipes import ImportOptions
from registry.contract.versions import Dtype, Framework, SourceOptions
from tests.builder.frontends.inside.cases import Cases, signature, tensor

WORDS = 40
TEXT = signature(
    tensor("tokens", "batch", "length", dtype=Dtype.INT64),
    tensor("mask", "batch", "length", dtype=Dtype.INT64),
    tensor("scores", "batch", 3),
)
IMAGE = signature(tensor("image", "batch", 1, "height", "width"), tensor("scores", "batch", 4))


class Recurrent(nn.Module):
    """An LSTM over padded texts; the mask leaves the padding out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.reader = nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states, _ = self.reader(self.words(tokens))
        kept = mask.unsqueeze(-1).to(states.dtype)
        return self.head((states * kept).sum(1) / kept.sum(1).clamp(min=1.0))


class Packed(Recurrent):
    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            self.words(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.reader(packed)
        return self.head(last[-1])


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(1, 6, 3, padding=1)
        self.head = nn.Linear(6, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(torch.relu(self.maps(image)).mean((2, 3))), 1)


class Swapped(nn.Module):
    """Its parameters are in another order than the contract's inputs, and it answers a dictionary."""

    def forward(self, right: torch.Tensor, left: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": right + 10 * left, "difference": left - right}


class Unconvertible(nn.Module):
    """An operator without a form in ONNX, inside a named part."""

    class Inner(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(image)

    def __init__(self) -> None:
        super().__init__()
        self.odd = self.Inner()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.odd(image).mean((1, 2, 3), keepdim=False).unsqueeze(1).expand(-1, 4)


def export(module: nn.Module, arguments: tuple[torch.Tensor, ...], path: Path, *axes: int) -> None:
    dynamic = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for _ in arguments)
    program = torch.export.export(module.eval(), arguments, dynamic_shapes=dynamic if axes else None)
    torch.export.save(program, path)


def programs(cases: Cases) -> None:
    export(Convolution(), (torch.ones(2, 1, 6, 5),), cases.folder("program") / "model.pt2", 0, 2, 3)
    cases.bring("program", IMAGE)
    cases.bring("legacy", IMAGE, folder=cases.folder("program"), options=ImportOptions(exporter="legacy"))
    export(Convolution(), (torch.ones(1, 1, 6, 5),), cases.folder("frozen") / "model.pt2")
    cases.bring("frozen", IMAGE)
    pair = (torch.ones(2, 3), torch.ones(2, 3))
    export(Swapped(), pair, cases.folder("swapped") / "model.pt2", 0)
    cases.bring(
        "swapped",
        signature(
            tensor("left", "batch", 3),
            tensor("right", "batch", 3),
            tensor("difference", "batch", 3),
            tensor("sum", "batch", 3),
            outputs=2,
        ),
    )
    export(Unconvertible(), (torch.ones(2, 1, 6, 5),), cases.folder("unconvertible") / "model.pt2", 0, 2, 3)
    cases.bring("unconvertible", IMAGE)


def scripts(cases: Cases) -> None:
    text = (torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.int64))
    torch.jit.script(Recurrent().eval()).save(str(cases.folder("text") / "model.pt"))
    case = cases.bring("text", TEXT)
    if case.ending == "done":
        case.facts["padding"] = padding_matters(cases.model("text"))
    torch.jit.trace(Packed().eval(), text).save(str(cases.folder("packed") / "model.pt"))
    cases.bring("packed", TEXT)
    torch.save(Convolution().state_dict(), cases.folder("weights") / "model.pt")
    cases.bring("weights", IMAGE)
    torch.save(Convolution().state_dict(), cases.folder("outside") / "model.pt")
    (cases.folder("outside") / "net.py").write_text("raise SystemExit('this was run')\n")
    cases.bring("outside", IMAGE, source=SourceOptions(entry="net:build"))


def padding_matters(model: Path) -> dict[str, float]:
    """How far a text alone is from the same text padded in a batch, with its mask and without."""
    generator = np.random.default_rng(5)
    text = generator.integers(1, WORDS, (1, 4))
    padded = np.concatenate([text, np.zeros((1, 5), np.int64)], axis=1)
    long = np.concatenate([padded, generator.integers(1, WORDS, (1, 9))])
    mask = np.ones_like(long)
    mask[0, 4:] = 0
    with opened(model, "ort.cpu") as engine:
        alone = engine.infer({"tokens": text, "mask": np.ones_like(text)})["scores"][0]
        masked = engine.infer({"tokens": long, "mask": mask})["scores"][0]
        unmasked = engine.infer({"tokens": long, "mask": np.ones_like(mask)})["scores"][0]
    return {
        "with": float(np.abs(alone - masked).max()),
        "without": float(np.abs(alone - unmasked).max()),
    }


def silero(cases: Cases, jit: Path, shipped: Path) -> None:
    """The voice detector with its state: 100 steps, each fed with the state of the one before."""
    (cases.folder("silero") / "model.jit").write_bytes(jit.read_bytes())
    case = cases.bring(
        "silero",
        signature(
            tensor("input", 1, 576),
            tensor("state", 2, 1, 128),
            tensor("output", 1, 1),
            tensor("stateN", 2, 1, 128),
            outputs=2,
        ),
        source=SourceOptions(part="_model"),
        max_rows=1,
    )
    if case.ending != "done":
        return
    import onnxruntime

    module = torch.jit.load(str(jit))._model.eval()
    own = onnxruntime.InferenceSession(str(shipped))
    generator = np.random.default_rng(1)
    state = theirs = np.zeros((2, 1, 128), np.float32)
    kept = torch.zeros(2, 1, 128)
    worst = worst_shipped = 0.0
    with opened(cases.model("silero"), "ort.cpu") as engine, torch.no_grad():
        for step in range(100):
            sound = (np.sin(np.arange(576) * (0.01 + step / 500)) * 0.3).astype(np.float32)[np.newaxis]
            sound += generator.standard_normal((1, 576)).astype(np.float32) * 0.05
            got = engine.infer({"input": sound, "state": state})
            state = got["stateN"]
            wanted, kept = module(torch.from_numpy(sound), kept)
            answer, theirs = own.run(None, {"input": sound, "state": theirs, "sr": np.array(16000, np.int64)})
            worst = max(worst, float(np.abs(got["output"] - wanted.numpy()).max()))
            worst = max(worst, float(np.abs(state - kept.numpy()).max()))
            worst_shipped = max(worst_shipped, float(np.abs(got["output"] - answer).max()))
    case.facts.update(worst=worst, worst_shipped=worst_shipped)


def main(home: Path, jit: Path, shipped: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cases = Cases(home, Framework.PYTORCH)
    scripts(cases)
    silero(cases, jit, shipped)
    programs(cases)
    cases.write()


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
