"""The row of host ops: a StableHLO module inside one op, whose operands and results never leave the host.

Its parameters are the module's text, which `translations/ttnn_to_flatbuffer.py` converts to bytecode.
"""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import TEXT
from opscope.compiler.ops.row import ANY, OpRow, register
from opscope.compiler.target.program import HostParams, Params


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return HostParams(attrs["module"].encode())


register(
    OpRow(
        "",
        "host_op",
        group="host",
        arity=None,
        dtypes=ANY,
        shape_rule=shapes.unchecked,
        attrs={"module": TEXT},
        params=_params,
        lowering="device",
    )
)
