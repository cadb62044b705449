"""Frozen TensorFlow graphs, one file each, written by our own code when they are exported."""
