from __future__ import annotations

import sys

import pytest

from opscope.base.live import pip_install

PIP = """
print("Obtaining file:///work")
print("Collecting click==8.1.8 (from -c constraints.txt)")
print("Collecting typing-inspection>=0.4")
print("Installing collected packages: click, typing-inspection, six")
"""


def test_each_package_is_a_step() -> None:
    steps: list[str] = []
    code, lines = pip_install.run([sys.executable, "-c", PIP], steps.append)
    assert (code, len(lines)) == (0, 4)
    assert steps == ["package 1, click", "package 2, typing-inspection", "unpacking 3 packages"]
    pip_install.run([sys.executable, "-c", PIP], steps.append, total=153)
    assert steps[3:5] == ["package 1 of 153, click", "package 2 of 153, typing-inspection"]


@pytest.mark.slow
def test_failure_prints_what_pip_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert pip_install.main(["--no-index", "no-such-package-here"]) != 0
    out, err = capfd.readouterr()
    assert "no-such-package-here" in err
    assert "installed in" not in out
