"""From a model to single ops with inputs and goldens: export, split, and one walk over the program on XLA.

All of it runs in child processes; the parent's side is `jobs/model_jobs.py`.
"""
