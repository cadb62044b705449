"""Finds what says that a StableHLO module is for several devices, in whichever spelling an exporter wrote it.

It reads the objects of MLIR's Python bindings that its callers hand in, and imports none. A sharding that splits
nothing (replicated, or over meshes of one device) leaves one device's program as it is, and is not reported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

_AXIS_SIZE = re.compile(r'"[^"]*"=(\d+)')
"""An axis of a mesh and its size: `"x"=2`."""
_AXIS = re.compile(r'[{,]\s*"')
"""An axis that a dim, a list of manual or unreduced axes or a collective names: `{"x"}`."""
_WHOLE = re.compile(r"replicated|maximal device=0|devices=\[1(,1)*\](0|<=\[1\])( last_tile_dim_replicate)?|")
"""One sharding of GSPMD that splits nothing, without its braces."""
GSPMD = frozenset({"mhlo.sharding", "mhlo.spmd_parameters_shardings", "mhlo.spmd_output_sharding"})
_FRONTEND = "mhlo.frontend_attributes"
"""Shardy's attributes as text, which is how they pass through HLO."""
_SIGNATURES = ("arg_attrs", "res_attrs")
_GROUPS = ("replica_groups", "source_target_pairs")
_MESH = "sdy.mesh"
_PARTITIONS = "mhlo.num_partitions"
_SPANNED = re.compile(r"<=\[([\d,]+)\]")
"""The devices that a sharding of GSPMD is over: `<=[2,4]`."""
_NAMED_MESH = re.compile(r'mesh<\[((?:"[^"]*"=\d+,? ?)+)\]')
"""A mesh of Shardy within an attribute: `#sdy.mesh<["x"=2, "y"=4]>`."""


def sharding_in(module: Any) -> tuple[str, str] | None:
    """Returns what in `module` (an operation) is sharded over several devices, and its sharding; None if nothing is."""
    meshes, shardings = [], []
    for op in _ops(module):
        name = op.name
        if name == _MESH:
            meshes.append(str(op.attributes["mesh"]))
            continue
        for key, attribute in _attributes(op):
            text = _unescaped(str(attribute))
            if key in GSPMD:
                if not all(_WHOLE.fullmatch(part.strip()) for part in re.split(r"[{}]\s*,?", text.strip('"'))):
                    return _label(op), f"{key} = {text}"
            elif key != _FRONTEND or "xla.sdy" in text:
                shardings.append((_label(op), f"{key} = {text}"))
                meshes.append(text)
    sizes = [int(size) for text in meshes for size in _AXIS_SIZE.findall(_unescaped(text))]
    if sizes and max(sizes) == 1:
        return None
    return next(((label, text) for label, text in shardings if _AXIS.search(_AXIS_SIZE.sub("", text))), None)


def mesh_of(module: Any) -> str:
    """Returns the sizes of the mesh that a module (an operation) names by `sdy.mesh`, `1x2`; empty if it names none of
    several devices, or several of different sizes."""
    meshes = [str(op.attributes["mesh"]) for op in _ops(module) if op.name == _MESH]
    shapes = {shape: math.prod(shape) for shape in (tuple(map(int, _AXIS_SIZE.findall(text))) for text in meshes)}
    several = [shape for shape, devices in shapes.items() if devices > 1]
    return "x".join(map(str, several[0])) if several and len({shapes[shape] for shape in several}) == 1 else ""


def option_that_splits(module: Any) -> str:
    """Returns the option that runs a sharded module (an operation), `--mesh 1x2`: by its own mesh, else by how many
    partitions it says it has or its shardings number."""
    if mesh := mesh_of(module):
        return f"--mesh {mesh}"
    partitions = module.attributes[_PARTITIONS].value if _PARTITIONS in module.attributes else 1
    texts = [_unescaped(str(attribute)) for op in _ops(module) for _, attribute in _attributes(op)]
    counts = [_count(match) for text in texts for match in (*_SPANNED.findall(text), *_NAMED_MESH.findall(text))]
    devices = max([partitions, *counts])
    return f"--mesh {devices}" if devices > 1 else "--mesh with as many devices as it is sharded over"


def _count(sizes: str) -> int:
    return math.prod(map(int, re.findall(r"\d+", re.sub(r'"[^"]*"', "", sizes))))


def collective_in(module: Any) -> str | None:
    """Returns the name of the first op of `module` that several devices compute together; None if there is none.

    A collective whose groups have one member each is an op of one device. Groups that are left out stand for all
    devices, of which a single op does not say how many there are.
    """
    return next((op.name for op in _ops(module) if _joins(op)), None)


def _joins(op: Any) -> bool:
    for key in _GROUPS:
        if key in op.attributes:
            groups = op.attributes[key]
            if not hasattr(groups, "type"):
                return True
            rows, width = groups.type.shape
            if key == "source_target_pairs":
                return any(groups[2 * row] != groups[2 * row + 1] for row in range(rows))
            return width != 1
    return False


def _ops(op: Any) -> Iterator[Any]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield from _ops(view.operation)


def _attributes(op: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of `op` that may hold a sharding, those of a function's arguments and results included."""
    own = op.name.startswith(("sdy.", "mpmd.")) and op.name != "sdy.constant"
    for key in op.attributes:
        if key in _SIGNATURES:
            for each in op.attributes[key]:
                for named in each:
                    if _carries(named.name):
                        yield named.name, named.attr
        elif own or _carries(key):
            yield key, op.attributes[key]


def _carries(key: str) -> bool:
    return key.startswith("sdy.") or key in GSPMD or key == _FRONTEND


def _unescaped(text: str) -> str:
    return text.replace("\\22", '"').replace('\\"', '"')


def _label(op: Any) -> str:
    return f"@{op.attributes['sym_name'].value}" if "sym_name" in op.attributes else str(op.name)
