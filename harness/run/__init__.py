"""One op-by-op run: the pytest plugin, the session, the plan for its processes, its end, and `run_op_by_op`.

This package puts the other packages of `harness` together.
"""
