"""Is it a sound LightGBM text model? Asked before LightGBM reads it: that trusts what a file says of itself,
and a damaged one makes it crash, or follow a loop of nodes for ever."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from builder.steps.step import Refused

T = TypeVar("T", int, float, str)
Fields = Mapping[str, str]

FIRST_TREE, LAST_TREE = b"Tree=0\n", b"end of trees"
CATEGORICAL = 1
LARGEST_WORD = (1 << 32) - 1


class _Unsound(ValueError):
    """The text says what is wrong."""


def sound_text(path: Path, name: str) -> str:
    """The model's trees with what stands before them; what follows is of the training, and no answer depends
    on it. `name`: of the file, for people. Raises Refused."""
    content = path.read_bytes()
    end = content.find(LAST_TREE)
    trees = content[: end + len(LAST_TREE)] if end > 0 else b""
    try:
        _check(trees)
        return trees.decode() + "\n"
    except (_Unsound, UnicodeDecodeError) as error:
        raise Refused(
            f"{name} is no LightGBM text model, or was damaged ({error}); save it with "
            "booster.save_model('model.txt') and register that file"
        ) from error


def _check(content: bytes) -> None:
    begin = content.find(FIRST_TREE)
    if not content.startswith(b"tree\n") or begin < 0:
        raise _Unsound("it has no trees")
    if b"\0" in content:
        raise _Unsound("it holds more than text")
    header = _fields(content[:begin].decode())
    features = len(_words(header, "feature_names"))
    if features == 0 or _number(header, "max_feature_idx") != features - 1:
        raise _Unsound("its number of features is not that of their names")
    if len(_words(header, "feature_infos")) != features:
        raise _Unsound("its features' ranges are not one for each")
    trees = list(_trees(content, begin, _numbers(header, "tree_sizes", int)))
    targets = _number(header, "num_tree_per_iteration")
    if not 1 <= targets <= len(trees) or len(trees) % targets:
        raise _Unsound(f"{len(trees)} trees are not {targets} for each round")
    if not 1 <= _number(header, "num_class") <= targets:
        raise _Unsound("it has another number of classes than of trees for each round")
    for at, fields in enumerate(trees):
        try:
            _check_tree(fields, features)
        except _Unsound as error:
            raise _Unsound(f"tree {at}: {error}") from error


def _trees(content: bytes, begin: int, sizes: Sequence[int]) -> Iterator[Fields]:
    """Each stands where the sizes of those before say."""
    for at, size in enumerate(sizes):
        text = content[begin : begin + max(size, 0)]
        if not text.startswith(b"Tree=%d\n" % at):
            raise _Unsound(f"tree {at} is not where its size says")
        yield _fields(text.decode())
        begin += size
    if not content.startswith(LAST_TREE, begin):
        raise _Unsound("its trees end elsewhere than their sizes say")


def _check_tree(fields: Fields, features: int) -> None:
    if fields.get("is_linear", "0") != "0":
        raise Refused(
            "the model has linear trees (linear_tree=true), which ONNX has no operator for; train it with "
            "linear_tree=false"
        )
    leaves = _number(fields, "num_leaves")
    _finite(_exactly(leaves, _numbers(fields, "leaf_value", float), "leaf_value"))
    if leaves == 1:
        return
    for name in ("leaf_weight", "leaf_count"):
        _none_or(leaves, fields, name)
    for name in ("split_gain", "internal_value", "internal_weight", "internal_count"):
        _none_or(leaves - 1, fields, name)
    split = _exactly(leaves - 1, _numbers(fields, "split_feature", int), "split_feature")
    if not all(0 <= feature < features for feature in split):
        raise _Unsound("it splits by a feature that there isn't")
    _check_children(fields, leaves)
    thresholds = _finite(_exactly(leaves - 1, _numbers(fields, "threshold", float), "threshold"))
    kinds = _exactly(leaves - 1, _numbers(fields, "decision_type", int), "decision_type")
    _check_categories(
        fields, [each for each, kind in zip(thresholds, kinds, strict=True) if kind & CATEGORICAL]
    )


def _check_children(fields: Fields, leaves: int) -> None:
    """Every node but the root, and every leaf (~number), is the child of one node, which comes before it."""
    found: list[int] = []
    for name in ("left_child", "right_child"):
        children = _exactly(leaves - 1, _numbers(fields, name, int), name)
        if any(0 <= child <= parent for parent, child in enumerate(children)):
            raise _Unsound("a node is above itself")
        found += children
    if sorted(found) != [*range(-leaves, 0), *range(1, leaves - 1)]:
        raise _Unsound("a node or leaf has no place, or two")


def _check_categories(fields: Fields, chosen: Sequence[float]) -> None:
    """The thresholds of categorical splits number sets of categories."""
    sets = _number(fields, "num_cat")
    if any(each not in range(sets) for each in chosen):
        raise _Unsound("it splits by a set of categories that there isn't")
    if sets == 0:
        return
    bounds = _exactly(sets + 1, _numbers(fields, "cat_boundaries", int), "cat_boundaries")
    words = _exactly(bounds[-1], _numbers(fields, "cat_threshold", int), "cat_threshold")
    if bounds[0] != 0 or sorted(bounds) != bounds or not all(0 <= word <= LARGEST_WORD for word in words):
        raise _Unsound("its sets of categories are none")


def _fields(text: str) -> Fields:
    """Lines NAME=VALUE; the others say nothing that is read."""
    return {
        name: value for name, equals, value in (line.partition("=") for line in text.split("\n")) if equals
    }


def _words(fields: Fields, name: str) -> list[str]:
    return fields.get(name, "").split()


def _numbers(fields: Fields, name: str, kind: Callable[[str], T]) -> list[T]:
    try:
        return [kind(word) for word in _words(fields, name)]
    except ValueError as error:
        raise _Unsound(f"{name} holds something else than numbers") from error


def _number(fields: Fields, name: str) -> int:
    (found,) = _exactly(1, _numbers(fields, name, int), name)
    return found


def _exactly(count: int, found: list[T], name: str) -> list[T]:
    if len(found) != count:
        raise _Unsound(f"{name} has {len(found)} values, and {count} are wanted")
    return found


def _none_or(count: int, fields: Fields, name: str) -> None:
    """Statistics of the training, which older releases leave out."""
    if name in fields:
        _exactly(count, _words(fields, name), name)


def _finite(found: list[float]) -> list[float]:
    if not all(map(math.isfinite, found)):
        raise _Unsound("it holds numbers that are none")
    return found
