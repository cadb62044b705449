"""Gets a record for each op of a run: from an earlier run's verdict or from a lane, within the budget and with reruns.

This package also decides the order of ops, and which verdicts are kept.
"""
