"""Write trained heads in the formats of others: Transformers, PEFT, ONNX, sentence-transformers."""
