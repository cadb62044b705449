"""From ONNX to StableHLO: `lift` makes weights arguments, `expand` rewrites unsupported ops, `lower` calls torch-mlir.

This must not run in one process with TensorFlow, because its LLVM and torch-mlir's abort each other.
"""
