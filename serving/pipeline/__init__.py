"""A leaf: what stands before and behind an engine, the same code in training, builder and node.

Imports `registry.contract`, numpy, orjson, and of `serving.runtimes` its dtypes, tensors and errors. Pillow
and tokenizers are imported by the steps that need them, when such a step is made.
"""
