"""Isolated children that climb ops, one at a time: the parent's side, the worker, and the ladder of stages.

If an op crashes its worker, that becomes the op's record, and the next op gets a fresh worker.
"""
