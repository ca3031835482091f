"""LightGBM's trees as the attributes of ONNX's TreeEnsemble operator, and as branches for the probes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from builder.frontends.probes import Branch
from builder.frontends.request import Array
from builder.steps.step import Refused

if TYPE_CHECKING:
    import onnx

BRANCH_LEQ, BRANCH_MEMBER = 0, 6
AGGREGATE_SUM, NO_TRANSFORM = 1, 0


@dataclass(slots=True)
class Trees:
    """The attributes of one TreeEnsemble, in the order in which its nodes and leaves are numbered."""

    roots: list[int] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    splits: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    left_is_leaf: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    right_is_leaf: list[int] = field(default_factory=list)
    missing_left: list[int] = field(default_factory=list)
    members: list[float] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


def read_trees(dump: Mapping[str, Any]) -> Trees:
    nodes = Trees()
    targets = int(dump["num_tree_per_iteration"])
    share = targets / len(dump["tree_info"]) if dump.get("average_output") and dump["tree_info"] else 1.0
    for at, tree in enumerate(dump["tree_info"]):
        _add_tree(nodes, tree["tree_structure"], at % targets, share)
    return nodes


def _add_tree(nodes: Trees, root: Mapping[str, Any], target: int, share: float) -> None:
    """A tree of one leaf becomes a split with that leaf on both sides: the operator has no bare leaves."""
    nodes.roots.append(len(nodes.features))
    if "leaf_value" in root:
        leaf = _leaf(nodes, root, target, share)
        _split(nodes, 0, BRANCH_LEQ, 0.0, missing_left=True)
        _point(nodes, len(nodes.features) - 1, (leaf, 1), (leaf, 1))
        return
    waiting: list[tuple[Mapping[str, Any], int]] = [(root, _number(nodes, root))]
    while waiting:
        node, number = waiting.pop()
        sides = []
        for child in (node["left_child"], node["right_child"]):
            if "leaf_value" in child:
                sides.append((_leaf(nodes, child, target, share), 1))
            else:
                below = _number(nodes, child)
                waiting.append((child, below))
                sides.append((below, 0))
        _point(nodes, number, *sides)


def _leaf(nodes: Trees, leaf: Mapping[str, Any], target: int, share: float) -> int:
    nodes.targets.append(target)
    nodes.weights.append(float(leaf["leaf_value"]) * share)
    return len(nodes.weights) - 1


def _number(nodes: Trees, node: Mapping[str, Any]) -> int:
    feature, missing = int(node["split_feature"]), node["missing_type"]
    if node["decision_type"] == "==":
        _split(nodes, feature, BRANCH_MEMBER, 0.0, missing_left=False)
        nodes.members += [*(float(word) for word in str(node["threshold"]).split("||")), math.nan]
        return len(nodes.features) - 1
    threshold = float(node["threshold"])
    if missing == "Zero":
        raise Refused(
            "the model was trained with zero_as_missing=true, which ONNX trees can't express; put NaN where "
            "a value is missing, train with zero_as_missing=false and register that model"
        )
    left = bool(node["default_left"]) if missing == "NaN" else threshold >= 0
    _split(nodes, feature, BRANCH_LEQ, threshold, missing_left=left)
    return len(nodes.features) - 1


def _split(nodes: Trees, feature: int, mode: int, value: float, *, missing_left: bool) -> None:
    nodes.features.append(feature)
    nodes.modes.append(mode)
    nodes.splits.append(value)
    nodes.missing_left.append(int(missing_left))
    for side in (nodes.left, nodes.left_is_leaf, nodes.right, nodes.right_is_leaf):
        side.append(0)


def _point(nodes: Trees, number: int, left: tuple[int, int], right: tuple[int, int]) -> None:
    nodes.left[number], nodes.left_is_leaf[number] = left
    nodes.right[number], nodes.right_is_leaf[number] = right


def rounded_down(values: Sequence[float], dtype: np.dtype[Any]) -> Array:
    """The largest numbers of `dtype` that are not above: `x <= value` stays what it is for every x of it."""
    exact = np.asarray(values, np.float64)
    if dtype == np.float64:
        return exact
    near = exact.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > exact, below, near)


def operators(trees: Trees, features: int, targets: int, dtype: np.dtype[Any]) -> Iterator["onnx.NodeProto"]:
    """table [rows, features] → raw [rows, targets], the sums of the leaves."""
    from onnx import helper, numpy_helper

    yield from _whole_categories(trees, features)

    def tensor(name: str, array: Array) -> "onnx.TensorProto":
        return numpy_helper.from_array(array, name)

    members = {"membership_values": tensor("members", np.asarray(trees.members, dtype))}
    yield helper.make_node(
        "TreeEnsemble",
        ["whole" if trees.members else "table"],
        ["raw"],
        "trees",
        domain="ai.onnx.ml",
        aggregate_function=AGGREGATE_SUM,
        post_transform=NO_TRANSFORM,
        n_targets=targets,
        tree_roots=trees.roots,
        nodes_featureids=trees.features,
        nodes_modes=tensor("modes", np.asarray(trees.modes, np.uint8)),
        nodes_splits=tensor("splits", rounded_down(trees.splits, dtype)),
        nodes_truenodeids=trees.left,
        nodes_trueleafs=trees.left_is_leaf,
        nodes_falsenodeids=trees.right,
        nodes_falseleafs=trees.right_is_leaf,
        nodes_missing_value_tracks_true=trees.missing_left,
        leaf_targetids=trees.targets,
        leaf_weights=tensor("weights", np.asarray(trees.weights, dtype)),
        **(members if trees.members else {}),
    )


def _whole_categories(trees: Trees, features: int) -> Iterator["onnx.NodeProto"]:
    """LightGBM cuts the fraction off a category: table → whole."""
    from onnx import helper, numpy_helper

    if not trees.members:
        return
    chosen = np.zeros((1, features), np.bool_)
    for feature, mode in zip(trees.features, trees.modes, strict=True):
        chosen[0, feature] |= mode == BRANCH_MEMBER
    yield helper.make_node("Constant", [], ["category"], value=numpy_helper.from_array(chosen))
    yield helper.make_node("Abs", ["table"], ["size"])
    yield helper.make_node("Floor", ["size"], ["floor"])
    yield helper.make_node("Sign", ["table"], ["sign"])
    yield helper.make_node("Mul", ["sign", "floor"], ["cut"])
    yield helper.make_node("Where", ["category", "cut", "table"], ["whole"])


def branches(dump: Mapping[str, Any]) -> Iterator[Branch]:
    """All numeric splits, as trees that the probes walk."""
    for tree in dump["tree_info"]:
        yield _branch(tree["tree_structure"])


def _branch(node: Mapping[str, Any]) -> Branch:
    if "leaf_value" in node:
        return Branch(-1, 0.0, ())
    numeric = node["decision_type"] == "<="
    return Branch(
        int(node["split_feature"]) if numeric else -1,
        float(node["threshold"]) if numeric else 0.0,
        (_branch(node["left_child"]), _branch(node["right_child"])),
    )


def ranges(dump: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """float64[features, 2]: least and largest value of each feature in training; NaN where it has no use."""
    infos = dump.get("feature_infos", {})
    found = [infos.get(name, {}) for name in dump["feature_names"]]
    return np.array(
        [(info.get("min_value", math.nan), info.get("max_value", math.nan)) for info in found], np.float64
    ).reshape(-1, 2)
