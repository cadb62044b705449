"""`python -m opscope.pybuda PROGRAM.py [ARGUMENT...]`: runs a program that says `import pybuda`.

An error of the program's use of pybuda is one line and exit code 2; any other is the program's own traceback.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from opscope.base import jax_plugins
from opscope.pybuda import aliases
from opscope.simulator.errors import DeviceError
from opscope.simulator.host.errors import ImageError, PyBudaError
from opscope.simulator.host.names import NAMES


def main(argv: list[str]) -> int:
    """Runs a program. Returns 0, or 2 with one line on standard error."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: python -m opscope.pybuda PROGRAM.py [ARGUMENT...]", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    program = Path(argv[0])
    if not program.is_file():
        print(f"pybuda: {program}: expected a Python program, got no such file", file=sys.stderr)
        return 2
    jax_plugins.keep_out()  # a simulated card computes on the processor
    aliases.install()
    sys.argv = argv
    sys.path.insert(0, str(program.resolve().parent))
    try:
        runpy.run_path(str(program), run_name="__main__")
    except (PyBudaError, ImageError, DeviceError) as error:
        print(f"pybuda: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except TypeError as error:
        # Python's own words for arguments that a signature has not, such as "TTDevice.__init__() missing 1 ...".
        if str(error).partition("(")[0].partition(".")[0] not in NAMES:
            raise
        print(f"pybuda: expected arguments that fit, got: {error}", file=sys.stderr)
        return 2
    finally:
        from opscope.simulator.host.run import shutdown

        shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
