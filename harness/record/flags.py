"""What the flags of a right result mean, in words (docs/results.md)."""

from __future__ import annotations

WORDS = {
    "amplified": "as far off as allowed errors are that its ops amplify",
    "as_body": "right only as the rounded steps of its body are",
    "body_differs": "its body computes something else than its name says",
    "body_overflows": "a step of its body overflows to Infinity or NaN in its type, where its formula is a number",
    "cancellation": "terms cancel, and are judged by their size",
    "denormal_flush": "denormals are zero",
    "documented_tail": "in places what the card's kernel is documented to return",
    "half": "halves are rounded either way",
    "initial_value": "an initial value enters its sums more than once",
    "saturated": "infinities are the largest number of the format",
    "ties": "equal values in another order",
    "truncation": "as short as cut terms make it",
    "unstated": "integers are others where StableHLO says nothing: a division by 0, a number outside of its new type",
}
"""Flag -> its words."""


def in_words(flag: str) -> str:
    """A flag as people read it; one that names its own figures (`12_steps_instead_of_13`) with spaces."""
    return WORDS.get(flag, flag.replace("_", " "))
