"""How a run gets a record for each op: an earlier run's verdict, or a lane, within the budget and with reruns.

The order of ops is decided here, and what is kept of a verdict.
"""
