"""The one file in C, which may stay uncompiled. Everything else is in pyproject.toml."""

import hashlib
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

PASSES = "opscope/base/passes/_passes.c"
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Whether this Python has it: one without the global lock has not."""

setup(
    ext_modules=[
        Extension(
            "opscope.base.passes._passes",
            [PASSES],
            optional=True,  # without a C compiler, NumPy makes the same passes (opscope/base/passes)
            py_limited_api=True,
            define_macros=[
                ("Py_LIMITED_API", "0x030B0000"),
                ("SOURCE", f'"{hashlib.sha256(Path(PASSES).read_bytes()).hexdigest()}"'),
            ],
            # The last one lets loops with a choice in them be done in wide registers; no bit depends on it.
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"],
        )
    ]
    if LIMITED_API
    else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
