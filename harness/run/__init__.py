"""One op-by-op run: the pytest plugin, the session, the plan of its processes, its end, and `run_op_by_op` without
pytest.

Everything below is put together here.
"""
