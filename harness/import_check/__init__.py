"""Holds what was imported to the model's own framework: the walk's results against the framework's, on equal inputs.

An importer errs like any compiler, and a golden made of what it imported would err with it.
"""
