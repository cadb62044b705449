"""The jobs of a run: those of its models (`model_jobs.py`), on a thread beside the ops (`preparing.py`), and which ops
can run by now (`ready_ops.py`), with their goldens (`goldens.py`).
"""
