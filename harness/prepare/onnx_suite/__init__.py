"""ONNX's own node tests as models: which there are, and what they are written as."""
