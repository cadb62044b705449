"""Who runs the ops that can run: one lane in pytest's own loop, xdist's workers, or a cluster.

What can run, they ask `harness/jobs/ready_ops.py`.
"""
