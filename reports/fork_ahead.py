"""The pytest plugin that forks, before the request is read, the process which will deliver the run.

What that process imports takes as long as an unchanged run's own start, so it begins first.
"""

from __future__ import annotations

import pytest

from opscope.reports import end_of_run
from opscope.reports.end_of_run import WaitingFork

FORK = pytest.StashKey[WaitingFork]()
"""Gets ready to deliver the run."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Makes the fork, on the controller of an op-by-op run alone."""
    option = config.option
    left_out = option.help or option.version or option.collectonly or option.opscope_no_report
    if left_out or not option.opscope_op_by_op:
        return
    if (fork := end_of_run.waiting_fork()) is not None:
        config.stash[FORK] = fork
        config.add_cleanup(fork.close)
