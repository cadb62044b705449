"""What changed and what to fix: outcomes of two runs or nights compared, histories, rankings, readiness.

It reads run folders and the database alike and prints nothing.
"""
