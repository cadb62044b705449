"""Models in PyTorch."""
