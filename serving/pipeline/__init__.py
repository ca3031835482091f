"""A leaf: what stands before and behind an engine, the same code in training, builder and node.

Imports `registry.contract`, numpy, orjson, and of `serving.runtimes` its dtypes, tensors and errors.
"""
