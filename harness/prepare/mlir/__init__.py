"""The harness's door to MLIR: the only package in `harness` that imports `jaxlib.mlir`.

`door` loads and writes modules, `tokens` and `values` read attributes and constants, `locations` reads source
locations, `single_op` builds modules. Objects are jaxlib's own, all in the one context of the process.
"""

from __future__ import annotations

from opscope.harness.prepare.mlir.door import (
    Module,
    context,
    load,
    parse,
    portable,
    stablehlo_version,
    to_bytecode,
    unread,
)

__all__ = ["Module", "context", "load", "parse", "portable", "stablehlo_version", "to_bytecode", "unread"]
