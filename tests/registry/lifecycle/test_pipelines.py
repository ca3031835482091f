"""What a version's pipeline promises is checked when it is registered, with the reason."""

import pytest

from registry.contract.pipeline import (
    Argmax,
    Classify,
    Column,
    Ctc,
    Detect,
    Image,
    Padding,
    PipelineSpec,
    PostStep,
    PreStep,
    Regress,
    Resize,
    Table,
    Tags,
    Tokenise,
    TokenText,
    Window,
)
from registry.contract.versions import Dtype, Observable, Signature, TensorSpec, VersionContract
from registry.lifecycle.contracts import contract_faults

FILES = ("model.onnx", "tokenizer.json", "keys.txt")
Shape = tuple[int | str, ...]


def spec(name: str, dtype: Dtype, *shape: int | str) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=("batch", *shape))


IDS = spec("ids", Dtype.INT64, "length")
MASK = spec("mask", Dtype.INT64, "length")
PIXELS = spec("image", Dtype.FP32, 3, 32, 64)
OUT = spec("y", Dtype.FP32, 2)


def faults(
    *inputs: TensorSpec,
    pre: tuple[PreStep, ...] = (),
    post: tuple[PostStep, ...] = (),
    output: TensorSpec = OUT,
    observables: tuple[Observable, ...] = (),
) -> str:
    contract = VersionContract(
        signature=Signature(inputs=inputs or (spec("x", Dtype.FP32, 4),), outputs=(output,)),
        pipeline=PipelineSpec(pre=pre, post=post),
        observables=observables,
    )
    return "; ".join(contract_faults(contract, FILES))


def tokens(padding: Padding | None, **more: object) -> Tokenise:
    given: dict[str, object] = {"file": "tokenizer.json", "ids": "ids", "mask": "mask", "max_length": 16}
    return Tokenise.model_validate({**given, "padding": padding, **more})


def test_a_text_of_any_length_needs_a_padding_rule() -> None:
    said = faults(IDS, MASK, pre=(tokens(None),))
    assert "'ids' takes texts of any length ('length' varies) and has no padding rule" in said
    assert "set tokenise.padding" in said
    for masking in ("mask", "id", "none"):
        assert faults(IDS, MASK, pre=(tokens(Padding(masking=masking)),)) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("padding", "more", "inputs", "said"),
    [
        (None, {}, ("ids 16", "mask 16"), "takes 16 tokens and has no padding rule"),
        (Padding(masking="mask"), {}, ("ids 16", "mask 16"), "set max_length to 16 and padding.fixed"),
        (
            Padding(masking="mask", fixed=True),
            {"max_length": 8},
            ("ids 16", "mask 16"),
            "takes 16 tokens always",
        ),
        (Padding(masking="mask", fixed=True), {}, ("ids 16", "mask 16"), ""),
        (Padding(masking="mask"), {"mask": None}, ("ids length",), "tokenise makes none"),
        (Padding(masking="id"), {"mask": None}, ("ids length",), ""),
        (Padding(masking="mask", fixed=True, multiple=8), {}, ("ids length", "mask length"), "choose one"),
        (Padding(masking="mask"), {}, ("ids length", "mask other"), "different lengths"),
        (
            Padding(masking="mask"),
            {},
            ("ids length",),
            "pre-processing makes ids, mask, but the inputs are ids",
        ),
        (Padding(masking="mask"), {"file": "vocab.txt"}, ("ids length", "mask length"), "reads 'vocab.txt'"),
    ],
)
def test_text_rules(
    padding: Padding | None, more: dict[str, object], inputs: tuple[str, ...], said: str
) -> None:
    made = []
    for one in inputs:
        name, _, axis = one.partition(" ")
        made.append(spec(name, Dtype.INT64, int(axis) if axis.isdigit() else axis))
    found = faults(*made, pre=(tokens(padding, **more),))
    assert said in found if said else found == ""


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Image(output="image", resize=Resize(width=64, height=32)), ""),
        (Image(output="image", resize=Resize(width=32, height=64)), "image makes 64 rows"),
        (Image(output="image", resize=Resize(width=64, height=32), layout="nhwc"), "channels in nhwc"),
        (Image(output="image", resize=Resize(width=64, height=32), colour="grey"), "makes 1 channels"),
        (Image(output="image"), "any number of rows"),
        (Image(output="image", resize=Resize(width=64, height=32), std=(0.0,)), "std has a 0"),
        (
            Image(output="image", resize=Resize(width=64, height=32), mean=(1.0, 2.0)),
            "2 numbers for 3 channels",
        ),
        (Image(output="image", resize=Resize(width=64, height=32, longest=99)), "for fit 'height'"),
        (Image(output="image", resize=Resize(width=64, height=32, shorter=99)), "for fit 'crop'"),
        (
            Image(output="image", resize=Resize(width=64, height=32, fit="crop", shorter=40)),
            "at least the width",
        ),
    ],
)
def test_image_rules(step: Image, said: str) -> None:
    found = faults(PIXELS, pre=(step,))
    assert said in found if said else found == ""


@pytest.mark.parametrize(
    ("step", "input_spec", "said"),
    [
        (Table(output="x", columns=(Column(name="a"),)), spec("x", Dtype.FP32, 1), ""),
        (Table(output="x", columns=(Column(name="a"),)), spec("x", Dtype.FP32, 2), "makes 1 numbers per row"),
        (Table(output="x", columns=(Column(name="a"),) * 2), spec("x", Dtype.FP32, 2), "column 'a' twice"),
        (
            Table(output="x", columns=(Column(name="a", one_hot=True),)),
            spec("x", Dtype.FP32, "n"),
            "one-hot and has no categories",
        ),
        (
            Table(output="x", columns=(Column(name="a", missing="nan"),)),
            spec("x", Dtype.INT64, 1),
            "is no float",
        ),
        (Window(output="x", length=8), spec("x", Dtype.FP32, 8), ""),
        (Window(output="x", length=8), spec("x", Dtype.FP32, 9), "window makes 8 steps"),
        (Window(output="x", length=8, channels="first"), spec("x", Dtype.FP32, 2, 8), ""),
        (
            Window(output="x", length=8, mean=(0.0, 1.0)),
            spec("x", Dtype.FP32, 8, 3),
            "2 numbers for 3 channels",
        ),
    ],
)
def test_table_and_window_rules(step: PreStep, input_spec: TensorSpec, said: str) -> None:
    found = faults(input_spec, pre=(step,))
    assert said in found if said else found == ""


@pytest.mark.parametrize(
    ("step", "output", "said"),
    [
        (Classify(output="y", labels=("a", "b")), OUT, ""),
        (Classify(output="z"), OUT, "classify reads 'z'"),
        (Classify(output="y", labels=("a", "b"), sigmoid=True), spec("y", Dtype.FP32, 1), ""),
        (Classify(output="y", labels=("a", "b")), spec("y", Dtype.FP32, 1), "2 labels, but 'y' has 1"),
        (Tags(output="y", labels=("a", "a")), OUT, "lists the label 'a' twice"),
        (Argmax(output="y", labels=("a", "b", "c")), spec("y", Dtype.INT64, 1), ""),
        (Regress(output="y", column=2), OUT, "column 2 of 'y', which has 2"),
        (Regress(output="y", low=2, high=1), OUT, "allows nothing"),
        (Ctc(output="y", tokens=("a",)), spec("y", Dtype.FP32, "steps", 2), ""),
        (Ctc(output="y", tokens=("a", "b")), spec("y", Dtype.FP32, "steps", 2), "2 tokens and a blank"),
        (Ctc(output="y"), spec("y", Dtype.FP32, "steps", 2), "either tokens or file"),
        (
            Ctc(output="y", tokens=("a",), file="keys.txt"),
            spec("y", Dtype.FP32, "s", 2),
            "either tokens or file",
        ),
        (Ctc(output="y", file="none.txt"), spec("y", Dtype.FP32, "s", 2), "the pipeline reads 'none.txt'"),
        (TokenText(output="y", file="tokenizer.json"), spec("y", Dtype.INT64, "n"), ""),
        (Detect(boxes="y"), spec("y", Dtype.FP32, 100, 6), ""),
        (Detect(boxes="y"), OUT, "a rank of 2"),
        (Detect(boxes="y", labels=("a",)), spec("y", Dtype.FP32, 100, 6), "1 labels for 2 classes"),
        (Detect(boxes="y", columns=True, labels=("a",)), spec("y", Dtype.FP32, 5, 100), ""),
        (Detect(boxes="y", sigmoid=True, softmax=True), spec("y", Dtype.FP32, 100, 6), "choose the one"),
    ],
)
def test_answer_rules(step: PostStep, output: TensorSpec, said: str) -> None:
    found = faults(post=(step,), output=output)
    assert said in found if said else found == ""


@pytest.mark.parametrize(
    ("kind", "source", "step", "said"),
    [
        ("count", "count", Detect(boxes="y"), ""),
        ("class", "detections", Detect(boxes="y"), "is a class, and 'detections' holds a list"),
        ("value", "price", Regress(output="y", field="price"), ""),
        ("value", "label", Classify(output="y"), "is a value, and 'label' holds a text"),
        ("length", "text", Ctc(output="y", tokens=("a",)), ""),
        ("count", "text", Ctc(output="y", tokens=("a",)), "a count is read from number or list"),
        ("value", "value", Regress(output="y", field="price"), "an answer has price"),
    ],
)
def test_observables_are_read_from_what_can_be_counted_so(
    kind: str, source: str, step: PostStep, said: str
) -> None:
    wide = isinstance(step, Detect | Ctc)
    output = (
        spec("y", Dtype.FP32, "n", 6 if isinstance(step, Detect) else 2) if wide else spec("y", Dtype.FP32, 1)
    )
    observable = Observable.model_validate({"name": "it", "kind": kind, "source": source})
    found = faults(post=(step,), output=output, observables=(observable,))
    assert said in found if said else found == ""
