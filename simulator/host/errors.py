"""The errors of the host, each with one line: `<where>: expected X, got Y; try Z`."""

from __future__ import annotations


class PyBudaError(RuntimeError):
    """Bad input, or a call that does not fit what was called before."""


class NoMeaningHere(PyBudaError):  # noqa: N818 - an answer, which says why
    """A name of TT-Buda's that has no meaning for a simulated card."""


class NotThereYet(PyBudaError):  # noqa: N818 - an answer, which says what to use
    """A name of TT-Buda's that will have a meaning here and has none so far."""
