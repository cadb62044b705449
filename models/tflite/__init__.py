"""TensorFlow Lite models, one file each, converted by TensorFlow when they are exported."""
