"""Whether a result is right: the comparison, the tolerances, and what the requested target computes in.

Nothing here knows where a result came from.
"""
