"""Isolated children that climb ops, one at a time: the parent's side, the worker, and the ladder of stages.

Whatever an op does to its worker becomes that op's record, and the next op gets a fresh one.
"""
