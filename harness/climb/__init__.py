"""How a run gets a record for each op: an earlier run's verdict, or a lane, within the budget and with reruns.

This package also decides the order of ops, and which verdicts are kept.
"""
