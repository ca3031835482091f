"""Declarative pre- and post-processing: the same description in training, builder and node.

Implementations are in `serving.pipeline`. A raw input is bytes; pre-processing makes the engine's input
tensors of it; post-processing makes one answer (a mapping of field to value) per row of the outputs.
Files that a step names are files of the version's manifest.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from registry.contract.wire import LARGEST, Whole, Wire, added

FilePath = Annotated[str, Field(min_length=1, max_length=512)]
FieldName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Holds = Literal["text", "number", "list", "any"]
Fields = tuple[tuple[str, Holds], ...]
"""Fields of an answer and what they hold."""


class ByteWindow(Wire):
    """The two ends of a byte string as token ids, int32[head + tail].

    At most `block` bytes are read at each end; ASCII white space is stripped at the outer side; the first
    `head` and the last `tail` bytes are kept; what is missing is `pad` (the head is padded behind, the tail
    before). `offset` shifts both windows to the right, for models trained so.
    """

    kind: Literal["byte-window"] = "byte-window"
    output: str
    head: int = Field(ge=0, le=1 << 20)
    tail: int = Field(ge=0, le=1 << 20)
    block: int = Field(ge=1, le=1 << 24)
    pad: int = Field(ge=-(1 << 31), lt=1 << 31)
    offset: int = Field(default=0, ge=0, le=1 << 16)


class JsonTensors(Wire):
    """The raw input is a JSON object of tensor name → nested list; shapes and dtypes by the signature."""

    kind: Literal["json-tensors"] = "json-tensors"


class Padding(Wire):
    """How token rows are filled up, as in training. Part of the version: a node never guesses it.

    Each row becomes as long as the next multiple of `multiple`, or max_length where `fixed`. `masking` says
    how the model tells padding from text: by the `mask` tensor, by the pad's own `id`, or not at all
    (`none`). Only a model that can tell may share a run with longer rows.
    """

    masking: Literal["mask", "id", "none"]
    side: Literal["right", "left"] = "right"
    id: int = Field(default=0, ge=0, lt=1 << 31)
    type_id: int = Field(default=0, ge=0, lt=1 << 31)
    multiple: int = Field(default=1, ge=1, le=4096)
    fixed: bool = False

    @property
    def mixes(self) -> bool:
        """True when rows of different lengths may share a run."""
        return self.masking != "none"


class Tokenise(Wire):
    """UTF-8 text → token ids, with a mask and type ids where the model takes them, [rows, length].

    `huggingface`: `file` is a tokenizer.json; its own padding and truncation are not used, those here are.
    `vocabulary`: `file` has one token a line, its number is the id; the text is cut at white space, in lower
    case where `lowercase`, and what is not listed counts as `unknown`. `special` adds the tokens that the
    tokenizer puts around a text (huggingface only). A text of more than `max_length` tokens is cut at the
    side that `truncate` names, or refused.
    """

    kind: Literal["tokenise"] = "tokenise"
    tokenizer: Literal["huggingface", "vocabulary"] = "huggingface"
    file: FilePath
    ids: str
    mask: str | None = None
    types: str | None = None
    max_length: int = Field(ge=1, le=1 << 15)
    truncate: Literal["right", "left", "refuse"] = "right"
    special: bool = True
    lowercase: bool = False
    unknown: str = "[UNK]"
    padding: Padding | None = None
    most_bytes: int = Field(default=1 << 20, ge=1, le=1 << 24)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(name for name in (self.ids, self.mask, self.types) if name is not None)


Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "opencv-linear"]


class Resize(Wire):
    """An image of any size → `width` × `height` pixels.

    `stretch` changes the aspect; `letterbox` keeps it and fills the rest with `fill` (the image in the
    `place` named); `crop` scales the shorter side to `shorter` (without it: until both sides are covered) and
    takes the centre; `height` scales to the height, keeps the aspect and fills behind up to `width` (lines of
    text); a wider line is squeezed into `width`, or into `longest`, where the model takes any width.

    Interpolations are Pillow's, which average over all pixels when they make an image smaller;
    `opencv-linear` is that of OpenCV's INTER_LINEAR, which does not.
    """

    width: int = Field(ge=1, le=1 << 14)
    height: int = Field(ge=1, le=1 << 14)
    fit: Literal["stretch", "letterbox", "crop", "height"] = "stretch"
    interpolation: Interpolation = "bilinear"
    fill: int = Field(default=114, ge=0, le=255)
    place: Literal["centre", "top-left"] = "centre"
    shorter: int | None = Field(default=None, ge=1, le=1 << 14)
    longest: int | None = Field(default=None, ge=1, le=1 << 14)


class Image(Wire):
    """JPEG or PNG → one float or uint8 image: decode, turn, resize, order colours, (x · scale − mean) / std.

    `turn`: as the file's EXIF says (OpenCV does, Pillow doesn't). `mean` and `std` have one number, or one
    per channel in the order of `colour`. Images of more than `most_pixels` are refused before they are
    decoded. `fill_normalised`: what letterboxes fill stays 0 behind the normalisation, instead of `fill`
    before it.
    """

    kind: Literal["image"] = "image"
    output: str
    resize: Resize | None = None
    colour: Literal["rgb", "bgr", "grey"] = "rgb"
    layout: Literal["nchw", "nhwc"] = "nchw"
    scale: Finite = 1.0
    mean: tuple[Finite, ...] = ()
    std: tuple[Finite, ...] = ()
    turn: bool = False
    fill_normalised: bool = False
    most_pixels: int = Field(default=50_000_000, ge=1, le=500_000_000)

    @property
    def channels(self) -> int:
        return 1 if self.colour == "grey" else 3


class Column(Wire):
    """One column of a table. `missing` stands for null and for what is left out: a number, `nan` (the model
    knows what is missing), or None: it must be there.

    A column with `categories` holds texts, and their position is the number; `unknown` stands for any other,
    None: it is refused. `one_hot`: one 0/1 number per category instead.
    """

    name: str = Field(min_length=1, max_length=256)
    categories: tuple[str, ...] = ()
    one_hot: bool = False
    missing: Finite | Literal["nan"] | None = None
    unknown: Whole | None = None

    @property
    def width(self) -> int:
        return len(self.categories) if self.one_hot else 1


class Table(Wire):
    """A JSON object of column → value → one row of numbers in the columns' order, [rows, columns]."""

    kind: Literal["table"] = "table"
    output: str
    columns: tuple[Column, ...] = Field(min_length=1, max_length=65_536)

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)


class Window(Wire):
    """A JSON list of numbers (of lists, with several channels) → windows of `length` steps.

    Windows begin every `stride` steps. `align`: where they are counted from: the first begins with the series
    (`start`), or the last ends with it (`end`). `take`: only the last window, or all of them as rows, at most
    `most`. `offset` leaves out so many of the newest steps. A series that is too short is filled with `fill`
    at its old end, or refused. `mean` and `std` have one number, or one per channel.
    """

    kind: Literal["window"] = "window"
    output: str
    length: int = Field(ge=1, le=1 << 20)
    stride: int = Field(default=1, ge=1, le=1 << 20)
    align: Literal["start", "end"] = "end"
    take: Literal["last", "all"] = "last"
    offset: int = Field(default=0, ge=0, le=1 << 20)
    channels: Literal["last", "first"] = "last"
    fill: Finite | None = None
    mean: tuple[Finite, ...] = ()
    std: tuple[Finite, ...] = ()
    most: int = Field(default=4096, ge=1, le=4096)


PreStep = Annotated[ByteWindow | JsonTensors | Tokenise | Image | Table | Window, Field(discriminator="kind")]


class Classify(Wire):
    """Scores of one output → `label`, `score`, `index` (the highest), and the `top` best as a list.

    `softmax` and `sigmoid` say that the output holds logits. One sigmoid logit stands for two classes: its
    score is that of the second. `labels` has one entry per class; empty means the index is the label.
    """

    kind: Literal["classify"] = "classify"
    output: str
    labels: tuple[str, ...] = ()
    softmax: bool = False
    sigmoid: bool = added(False)
    top: int = Field(default=1, ge=1, le=100)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.softmax and self.sigmoid:
            raise ValueError("softmax and sigmoid exclude each other: choose the one of training")
        return self

    @property
    def holds(self) -> Fields:
        return (("label", "text"), ("score", "number"), ("index", "number"), ("top", "list"))


class Argmax(Wire):
    """The class alone → `label`, `index`: of the highest number of any range (votes, margins), or of an
    output that holds the class already (one whole number or text per row; a text has no `index`)."""

    kind: Literal["argmax"] = "argmax"
    output: str
    labels: tuple[str, ...] = ()

    @property
    def holds(self) -> Fields:
        return (("label", "text"), ("index", "number"))


class Tags(Wire):
    """Any number of classes per row → `tags` (label, score and index of those at or above `threshold`, best
    first) and `count`."""

    kind: Literal["tags"] = "tags"
    output: str
    labels: tuple[str, ...] = ()
    sigmoid: bool = False
    threshold: float = Field(default=0.5, ge=0, le=1)

    @property
    def holds(self) -> Fields:
        return (("tags", "list"), ("count", "number"))


class Regress(Wire):
    """One number of one output → `field` (`value`): number · scale + offset.

    `column` picks one of several numbers per row. Outside of [`low`, `high`] it is no legal answer.
    """

    kind: Literal["regress"] = "regress"
    output: str
    field: FieldName = added("value")
    column: int | None = added(None, ge=0, le=LARGEST)
    scale: Finite = added(1.0)
    offset: Finite = added(0.0)
    low: Finite | None = added(None)
    high: Finite | None = added(None)

    @property
    def holds(self) -> Fields:
        return ((self.field, "number"),)


class Ctc(Wire):
    """Per-step class scores [rows, steps, classes] → `text`, `score`, `length`: the best class of each step,
    repeats joined, `blank` left out.

    Characters are `tokens`, or the lines of `file`, in the order of the classes without the blank. `score` is
    the mean score of the steps that gave a character (1 for an empty text). `softmax`: they are logits.
    """

    kind: Literal["ctc"] = "ctc"
    output: str
    tokens: tuple[str, ...] = ()
    file: FilePath | None = None
    blank: int = Field(default=0, ge=0, le=LARGEST)
    softmax: bool = False

    @property
    def holds(self) -> Fields:
        return (("text", "text"), ("score", "number"), ("length", "number"))


class TokenText(Wire):
    """Token ids [rows, length], or scores [rows, length, vocabulary] → `text`, `length` (in tokens).

    Ends before the first `stop` id; ids in `skip` are left out. `file` is a tokenizer.json, or a vocabulary
    with one token a line, joined by `joiner`.
    """

    kind: Literal["token-text"] = "token-text"
    output: str
    tokenizer: Literal["huggingface", "vocabulary"] = "huggingface"
    file: FilePath
    stop: Whole | None = None
    skip: tuple[Whole, ...] = ()
    joiner: str = " "

    @property
    def holds(self) -> Fields:
        return (("text", "text"), ("length", "number"))


class Detect(Wire):
    """Candidate boxes → `detections` (label, index, score, box [x1, y1, x2, y2]), `count`, `score` (the best
    one's, 0 without any), by non-maximum suppression.

    `boxes` is [rows, boxes, 4] with `scores` [rows, boxes, classes]; without `scores` the scores stand behind
    the four numbers, or behind an objectness that is multiplied in. `columns`: the last two axes are swapped.
    `relative`: of the input's width and height instead of pixels. Boxes are scaled back to the image that was
    sent, where an `image` step made the input. `background` is a class that is never reported. `per_class`:
    boxes of different classes don't suppress one another. At most `most` are given, of the `candidates` best.
    """

    kind: Literal["detect"] = "detect"
    boxes: str
    scores: str | None = None
    form: Literal["xyxy", "cxcywh", "xywh", "yxyx"] = "xyxy"
    columns: bool = False
    relative: bool = False
    objectness: bool = False
    sigmoid: bool = False
    softmax: bool = False
    background: int | None = Field(default=None, ge=0, le=LARGEST)
    labels: tuple[str, ...] = ()
    threshold: float = Field(default=0.25, ge=0, le=1)
    iou: float = Field(default=0.45, ge=0, le=1)
    per_class: bool = True
    candidates: int = Field(default=4096, ge=1, le=30_000)
    most: int = Field(default=100, ge=1, le=1000)

    @property
    def holds(self) -> Fields:
        return (("detections", "list"), ("count", "number"), ("score", "number"))


class Tensors(Wire):
    """Outputs as nested lists, under their own names."""

    kind: Literal["tensors"] = "tensors"


PostStep = Annotated[
    Classify | Argmax | Tags | Regress | Ctc | TokenText | Detect | Tensors, Field(discriminator="kind")
]


class PipelineSpec(Wire):
    """What stands before and behind the engine."""

    pre: tuple[PreStep, ...] = ()
    post: tuple[PostStep, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Paths, in the version's manifest, of what the steps read."""
        named = [step.file for step in self.pre if isinstance(step, Tokenise)]
        named += [step.file for step in self.post if isinstance(step, Ctc | TokenText) and step.file]
        return tuple(dict.fromkeys(named))

    def holds(self, outputs: Sequence[str]) -> Fields:
        """What an answer of a model with these outputs holds; a name comes twice where two steps write it."""
        steps = self.post or (Tensors(),)
        return tuple(
            field
            for step in steps
            for field in (
                tuple((name, "any") for name in outputs) if isinstance(step, Tensors) else step.holds
            )
        )
