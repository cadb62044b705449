"""Rows of ops that are not lowered, each with its kind and reason, so that the table has every op.

`notimpl`: this compiler lacks it; `notyet`: the target lacks it; `never`: the hardware cannot do it.
"""

from __future__ import annotations

from opscope.compiler.ops.row import ANY, FLOAT, Group, Lowering, OpRow, register_all

_COMPLEX = "complex numbers: the device's registers and packers know no complex number format"
_DYNAMIC = (
    "static where its sizes are constants, which the door refines; never where they are known only at run time: a "
    "program's buffers are placed when it is compiled"
)
_HOST = "talks to the host in the middle of a program: inputs enter at its start, results leave at its end"
_GONE = "left the StableHLO specification; exporters write other ops"

_UNREAD = "jaxlib's StableHLO, through which every module is read, has no such op: no module holds one"

_UNLOWERED: dict[Group, list[tuple[Lowering, str, str]]] = {
    "eltwise": [("never", "complex", _COMPLEX)],
    "linalg": [("never", "fft", _COMPLEX), ("never", "einsum unary_einsum", _GONE)],
    "control": [
        ("pattern", "optimization_barrier", "hands its operands on: nothing reorders across single ops"),
        ("pattern", "composite", "the op that it names, else its decomposition: legalize-stablehlo-composite-to-ttir"),
        ("pattern", "custom_call", "by its target: the registry in passes/stablehlo_to_ttir/custom_call.py"),
        ("pattern", "tuple get_tuple_element", "the door takes tuples apart"),
        ("pattern", "after_all create_token", "the door drops them: tokens order side effects, and there are none"),
        ("pattern", "async_start async_done", "the door puts the computation where it starts"),
        ("pattern", "return", "ends a region"),
    ],
    "quant": [
        (
            "pattern",
            "uniform_quantize uniform_dequantize",
            "the door writes quantised tensors as integers with scales and zero points",
        )
    ],
    "collective": [
        ("never", "cross-replica-sum", _GONE),
        ("never", "collective_reduce", _UNREAD),
        ("never", "send recv infeed outfeed", _HOST),
    ],
    "dynamic": [
        (
            "pattern",
            "dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad dynamic_reshape "
            "real_dynamic_slice",
            _DYNAMIC,
        )
    ],
}

for _group, _groups in _UNLOWERED.items():
    for _kind, _names, _reason in _groups:
        register_all(
            *(
                OpRow(f"stablehlo.{name}", group=_group, dtypes=ANY, lowering=_kind, reason=_reason)
                for name in _names.split()
            )
        )

# The specification allows both on floats too, whose values are all real.
for _name, _meaning in (("real", "the operand itself"), ("imag", "full of zeros")):
    register_all(
        OpRow(f"stablehlo.{_name}", dtypes=FLOAT, lowering="pattern", reason=_meaning),
        OpRow(f"stablehlo.{_name}", dtypes=frozenset({"complex"}), lowering="never", reason=_COMPLEX),
    )
