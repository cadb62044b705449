"""TensorFlow functions of named tensors, one file each."""
