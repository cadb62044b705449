"""Models as ONNX graphs, one file each, built node by node with `models.onnx.graph`."""
