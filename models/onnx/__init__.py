"""Models as ONNX graphs, one file each, built node by node with `opscope.models.onnx.graph`."""
