"""The harness: exports models, splits them into single ops, takes each up a backend's stages and keeps the records."""
