"""Keras 3 models, run on Keras' JAX backend; one file each."""
