"""Suites of others, whose stored answers judge this project: which part is at fault where an answer differs.

`opscope score suite:onnx` runs the node tests that the package `onnx` ships.
"""
