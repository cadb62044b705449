"""Options of a `pytest` that a test starts: without plugins that take a third of its time to import.

They are of the tests' own venv, and a sweep needs none of them. xdist stays, since `-n` is its option.
"""

from __future__ import annotations

PLUGINS = ("anyio", "hypothesispytest", "benchmark", "jaxtyping", "randomly")
WITHOUT_PLUGINS = tuple(word for name in PLUGINS for word in ("-p", f"no:{name}"))
