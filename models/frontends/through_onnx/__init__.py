"""From an ONNX graph to StableHLO: `lift` makes weights arguments, `expand` writes out gaps, `lower` is torch-mlir.

Never in one process with TensorFlow: its LLVM and torch-mlir's abort each other.
"""
