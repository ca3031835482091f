"""Logits → scores."""

import numpy as np

from serving.runtimes.protocol import Array


def softmax(logits: Array) -> Array:
    """Over the last axis; half floats are widened first."""
    wide = widened(logits)
    exponents = np.exp(wide - wide.max(axis=-1, keepdims=True))
    scores: Array = exponents / exponents.sum(axis=-1, keepdims=True)
    return scores


def sigmoid(logits: Array) -> Array:
    """Without overflow on either side."""
    wide = widened(logits)
    small = np.exp(-np.abs(wide))
    scores: Array = np.where(wide >= 0, 1 / (1 + small), small / (1 + small))
    return scores


def widened(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype == np.float16 else values
