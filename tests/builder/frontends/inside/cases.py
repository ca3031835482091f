"""Imports models one after the other in one process, as the import step does, and writes down what came of
it."""

import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from builder.steps.importing import ImportParameters, run
from builder.steps.step import Refused
from registry.contract.recipes import ImportOptions
from registry.contract.versions import Dtype, Framework, Signature, SourceOptions, TensorSpec


@dataclass
class Case:
    """`ending`: done, refused or failed. `facts`: what the case found out besides."""

    ending: str
    told: str
    result: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


class Cases:
    def __init__(self, home: Path, framework: Framework) -> None:
        self._home = home
        self._framework = framework
        self._found: dict[str, Case] = {}

    def folder(self, name: str) -> Path:
        """Where the files of a case's version belong."""
        found = self._home / f"{name}.version"
        found.mkdir(parents=True, exist_ok=True)
        return found

    def model(self, name: str) -> Path:
        return self._home / name / "model.onnx"

    def bring(
        self,
        name: str,
        signature: Signature,
        *,
        folder: Path | None = None,
        source: SourceOptions | None = None,
        options: ImportOptions | None = None,
        max_rows: int = 8,
    ) -> Case:
        version = folder or self.folder(name)
        files = tuple(sorted(str(path.relative_to(version)) for path in version.rglob("*") if path.is_file()))
        parameters = ImportParameters(
            framework=self._framework,
            files=files,
            signature=signature,
            source=source or SourceOptions(),
            options=options or ImportOptions(),
            max_rows=max_rows,
        )
        out = self._home / name
        out.mkdir(exist_ok=True)
        try:
            result = run(parameters, {"version": version}, out)
        except Refused as refused:
            case = Case("refused", str(refused))
        except Exception:
            case = Case("failed", traceback.format_exc())
        else:
            case = Case("done", result.says, result.model_dump(mode="json"))
        self._found[name] = case
        return case

    def write(self) -> None:
        (self._home / "cases.json").write_text(
            json.dumps({name: asdict(case) for name, case in self._found.items()})
        )


def read_cases(home: Path) -> dict[str, Case]:
    found = json.loads((home / "cases.json").read_text())
    return {name: Case(**case) for name, case in found.items()}


def tensor(name: str, *shape: int | str, dtype: Dtype = Dtype.FP32) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


def signature(*specs: TensorSpec, outputs: int = 1) -> Signature:
    """The last `outputs` of the tensors are outputs."""
    return Signature(inputs=specs[:-outputs], outputs=specs[-outputs:])
