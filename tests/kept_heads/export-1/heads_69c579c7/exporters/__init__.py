"""A trained head as an ordinary checkpoint: Transformers, ONNX, a portable folder."""
