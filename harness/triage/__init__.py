"""What is done about a failure: a folder that shows it again, its smallest form, its rule, its first revision.

`bundle` writes and reads the folder, `replay` runs it, `reduce` and `probe` vary the op in it, `bisect` runs it over
revisions. `after_run` leaves a folder for each failure of a run.
"""
