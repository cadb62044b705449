"""How many ops a run has under way at once: what pytest-xdist's options say, by its own parsing.

A run starts no workers of xdist: its engine has one lane for each worker that would be there. `-n` with `auto`,
`logical`, `--maxprocesses`, PYTEST_XDIST_AUTO_NUM_WORKERS and the hook `pytest_xdist_auto_num_workers` keep their
meaning; how tests are distributed (`--dist load...`) has none here, where each op waits for nothing but its goldens.
"""

from __future__ import annotations

import re

import pytest

from opscope.harness.record.errors import InputError

CLUSTER = "--cluster tcp://HOST:PORT for other machines, or -n N for this one"


def check(config: pytest.Config) -> None:
    """Raises InputError for options that ask xdist for more than lanes of this machine. To be called before xdist
    takes its options: afterwards `-n 2` looks like `--tx 2*popen`."""
    option = config.option
    for spec in getattr(option, "tx", None) or ():
        if not re.fullmatch(r"(\d+\*)?popen", spec):
            raise InputError("--tx", "popen or N*popen", repr(spec), CLUSTER)
    for name, value in (("--px", getattr(option, "px", None)), ("--rsyncdir", getattr(option, "rsyncdir", None))):
        if value:
            raise InputError(name, "none with --op-by-op", repr(value), CLUSTER)
    if getattr(option, "dist", "no") == "each":
        raise InputError("--dist", "each op once", "'each'", "--dist load")


def taken(config: pytest.Config) -> int:
    """The number of lanes, once xdist has taken its options; it starts no worker afterwards."""
    option = config.option
    if getattr(option, "dist", "no") == "no":
        return 1
    specs = getattr(option, "tx", None) or ["popen"]
    count = sum(int(spec.partition("*")[0]) if "*" in spec else 1 for spec in specs)
    option.dist, option.tx, option.numprocesses = "no", [], 0
    return max(1, count)
