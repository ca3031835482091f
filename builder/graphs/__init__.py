"""Reading and rewriting ONNX graphs."""
