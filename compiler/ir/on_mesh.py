"""tt-mlir's pipeline on sharded StableHLO, by jaxlib's own objects: each device's program, and where tensors enter it.

What `jax.shard_map` writes, `sdy.manual_computation` over all axes of its mesh, is each device's program already: its
body takes the op's place. Calls of `tt.mesh_shard` say how a whole tensor is cut into the devices' parts, and how parts
are joined to a whole; an argument of the entry that is annotated is handed over as a part. What older exporters write
for it, calls of `SPMDFullToShardShape` and `SPMDShardToFullShape`, is read alike. Every other sharding needs XLA's
partitioner first (`opscope/base/mesh/partition.py`), whose placement of results is then written as such calls.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jaxlib.mlir.ir as mlir
from jaxlib.mlir import passmanager
from jaxlib.mlir.dialects import sdy

from opscope.base.mesh.placement import Placement, placement, tiles_of
from opscope.base.mesh.shardings import sharding_in
from opscope.compiler.errors import CompilerInputError

MESH, MANUAL, ALL_SLICE = "sdy.mesh", "sdy.manual_computation", "sdy.all_slice"
MESH_SHARD, MESH_PARTITION = "tt.mesh_shard", "tt.mesh_partition"
TO_PARTS, TO_WHOLE = "full_to_shard", "shard_to_full"
_SHARDING, _GSPMD = "sdy.sharding", "mhlo.sharding"
_CALL, _CONSTRAINT = "stablehlo.custom_call", "Sharding"
_TO_PARTS, _TO_WHOLE = "SPMDFullToShardShape", "SPMDShardToFullShape"
_MANUAL = "{manual}"
_AXIS = re.compile(r'"([^"]+)"')
Axes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Cut:
    """How a tensor is split over a mesh, in the words of `ttir.mesh_shard`."""

    dims: tuple[int, ...]
    """For each axis of the mesh the dim that it splits; -1 for none."""
    shape: tuple[int, ...]
    """Into how many parts each dim is split."""

    @property
    def whole(self) -> bool:
        """Whether each device has all of it."""
        return all(dim < 0 for dim in self.dims)


def inline_manual(module: mlir.Module) -> None:
    """Puts the bodies of manual computations in their place where these span their mesh. Others are left."""
    _read_calls(module)
    meshes = _meshes(module)
    for function in [op for op in _operations(module) if op.name == "func.func"]:
        ops = [view.operation for view in function.regions[0].blocks[0].operations]
        manual = [op for op in ops if op.name == MANUAL]
        if manual and all(_spans(op, meshes) for op in manual):
            for op in manual:
                _inline(op, function, meshes)
            _drop_shardings(function, _SHARDING)
            _write_slices(function, meshes)


def join_results(module: mlir.Module, mesh: Axes, placements: Sequence[Placement], wholes: Sequence[Any]) -> None:
    """Joins the results of the entry of a partitioned module, a public function, to whole tensors of these types.

    Raises CompilerInputError for a placement that is no cut along the mesh's axes.
    """
    entry = _entry(module)
    entry.attributes["sym_visibility"] = mlir.StringAttr.get("public")
    end = list(entry.regions[0].blocks[0].operations)[-1].operation
    for at, (place, kind) in enumerate(zip(placements, wholes, strict=True)):
        cut = cut_of(place, mesh)
        with mlir.InsertionPoint(end), end.location:
            end.operands[at] = _mesh_shard(end.operands[at], kind, cut, TO_WHOLE)
    _set_type(entry)


def cut_of(place: Placement, mesh: Axes) -> Cut:
    """The cut that a placement is, for devices in the order of the mesh. Raises CompilerInputError if it is none."""
    sizes = [size for _, size in mesh]
    coordinates = list(itertools.product(*map(range, sizes)))
    dims = []
    for axis, size in enumerate(sizes):
        one = coordinates.index(tuple(int(other == axis and size > 1) for other in range(len(sizes))))
        moved = [dim for dim, start in enumerate(place.starts[one]) if start]
        dims.append(moved[0] if moved else -1)
    shape = [1] * len(place.shape)
    for dim, size in zip(dims, sizes, strict=True):
        if dim >= 0:
            shape[dim] *= size
    for device, at in enumerate(coordinates):
        start = [0] * len(shape)
        for dim, place_on_axis, size in zip(dims, at, sizes, strict=True):
            if dim >= 0:
                start[dim] = start[dim] * size + place_on_axis
        if tuple(n * size for n, size in zip(start, place.shape, strict=True)) != place.starts[device]:
            raise CompilerInputError(
                "stablehlo-pipeline: expected results cut along the mesh's axes, got another order"
            )
    return Cut(tuple(dims), tuple(shape))


def mesh_of(module: mlir.Module) -> Axes:
    """The axes of the module's one mesh, else of that which its shardings of GSPMD are over.

    Raises CompilerInputError if it has none, several, or one in another order.
    """
    meshes = set(_meshes(module).values())
    if not meshes and any(map(tiles_of, texts := _gspmd(module))):
        return gspmd_mesh(texts)
    if len(meshes) != 1:
        raise CompilerInputError(
            f"stablehlo-pipeline: expected one sdy.mesh for what is sharded, got {len(meshes) or 'none'}; "
            "try --mesh of opscope compile"
        )
    return meshes.pop()


def rows_and_columns(module: Any) -> tuple[int, ...]:
    """The sizes of the axes of a module's one mesh, if it has two; nothing otherwise."""
    meshes = set(_meshes(module).values())
    sizes = tuple(size for _, size in meshes.pop()) if len(meshes) == 1 else ()
    return sizes if len(sizes) == 2 else ()


def sharded(module: mlir.Module) -> bool:
    """Whether anything of the module is split over several devices."""
    return sharding_in(module.operation) is not None


def entry_types(module: mlir.Module) -> list[str]:
    """The types of the entry's results, as text."""
    end = list(_entry(module).regions[0].blocks[0].operations)[-1].operation
    return [str(value.type) for value in end.operands]


def name_of(module: mlir.Module) -> str:
    """The module's name; empty if it has none."""
    attributes: Any = module.operation.attributes
    return attributes["sym_name"].value if "sym_name" in attributes else ""


def _inline(op: Any, function: Any, meshes: dict[str, Axes]) -> None:
    (block,) = op.regions[0].blocks
    annotated = _annotated(function, _SHARDING)
    takes, gives = (_cuts(op.attributes[name], meshes) for name in ("in_shardings", "out_shardings"))
    for operand, inner, cut in zip(op.operands, block.arguments, takes, strict=True):
        inner.replace_all_uses_with(_entered(op, operand, inner.type, cut, annotated))
    (*body, end) = [view.operation for view in block.operations]
    for inner_op in body:
        inner_op.move_before(op)
    for result, value, cut in zip(op.results, end.operands, gives, strict=True):
        with mlir.InsertionPoint(op), op.location:
            result.replace_all_uses_with(_mesh_shard(value, result.type, cut, TO_WHOLE))
    op.erase()
    _set_type(function)


def _entered(op: Any, whole: Any, local: Any, cut: Cut, annotated: Sequence[Any]) -> Any:
    """A device's part of what `op` takes: an annotated argument comes as a part, anything else is cut before `op`."""
    if whole in annotated and len(list(whole.uses)) == 1:
        whole.set_type(local)
        return whole
    with mlir.InsertionPoint(op), op.location:
        return _mesh_shard(whole, local, cut, TO_PARTS)


def _read_calls(module: mlir.Module) -> None:
    """Writes the calls that enter and leave each device's program as cuts and joins along the mesh that they are over,
    and names that mesh. A module that leaves some axes to XLA is left as it is.

    Raises CompilerInputError for shardings of several meshes.
    """
    calls = [op for op in every(module.operation) if _target(op) in (_TO_PARTS, _TO_WHOLE)]
    if not calls or any(_sharding_of(op) != _MANUAL for op in calls if _target(op) == _TO_PARTS):
        return
    passmanager.PassManager.parse("builtin.module(inline)").run(module.operation)
    mesh = _named_mesh(module)
    for function in [op for op in _operations(module) if op.name == "func.func"]:
        annotated = _annotated(function, _GSPMD)
        for op in [op for op in every(function) if _target(op) in (_TO_PARTS, _TO_WHOLE)]:
            _read_call(op, mesh, annotated)
        _drop_shardings(function, _GSPMD)
        _set_type(function)


def _read_call(op: Any, mesh: Axes, annotated: Sequence[Any]) -> None:
    value, kind, enters = op.operands[0], op.results[0].type, _target(op) == _TO_PARTS
    text = _sharding_of(op)
    if _target(value.owner) == _CONSTRAINT:
        constraint = value.owner.operation
        text = _sharding_of(constraint) if enters else text
        value = op.operands[0] = constraint.operands[0]
        if not list(constraint.results[0].uses):
            constraint.erase()
    whole = value.type if enters else kind
    try:
        cut = cut_of(placement(text, whole.shape, math.prod(size for _, size in mesh)), mesh)
    except ValueError as error:
        raise CompilerInputError(f"stablehlo-pipeline: {error}") from error
    if enters:
        result = _entered(op, value, kind, cut, annotated)
    else:
        with mlir.InsertionPoint(op), op.location:
            result = _mesh_shard(value, kind, cut, TO_WHOLE)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _named_mesh(module: mlir.Module) -> Axes:
    """The mesh of all shardings of GSPMD in a module, named in it if it has several devices."""
    mesh = gspmd_mesh(_gspmd(module))
    if math.prod(size for _, size in mesh) > 1 and not _meshes(module):
        axes = ", ".join(f'"{name}"={size}' for name, size in mesh)
        (block,) = module.operation.regions[0].blocks
        with mlir.InsertionPoint.at_block_begin(block), mlir.Location.unknown():
            mlir.Operation.create(
                MESH,
                attributes={
                    "sym_name": mlir.StringAttr.get("mesh"),
                    "mesh": mlir.Attribute.parse(f"#sdy.mesh<[{axes}]>"),
                },
            )
    return mesh


def gspmd_mesh(texts: Sequence[str]) -> Axes:
    """The rows and columns of the devices that shardings such as `{devices=[2,1,4]<=[8]}` are over.

    A sharding that splits one dim over all devices is over a line of them; one that names two axes, or splits over two,
    says more. Raises CompilerInputError for shardings of several meshes.
    """
    shapes = {shape for shape in map(_shape_of, texts) if shape}
    grids = {shape for shape in shapes if 1 not in shape} or shapes or {(1, 1)}
    if len(grids) > 1 or len({math.prod(shape) for shape in shapes}) > 1:
        raise CompilerInputError(
            f"stablehlo-pipeline: expected shardings over one mesh, got {', '.join(map(str, sorted(shapes)))}"
        )
    return tuple(zip(("x", "y"), grids.pop(), strict=True))


def _shape_of(text: str) -> tuple[int, int] | None:
    """The mesh that one sharding is over; None for one that splits nothing, or over more than two axes."""
    read = tiles_of(text)
    if read is None:
        return None
    tiles, sizes, ids = read
    split = [size for size in tiles if size > 1]
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    if len(split) == 1:
        return 1, split[0]
    if len(split) != 2:
        return None
    return (split[0], split[1]) if ids[0] + 1 == ids[1] else (split[1], split[0])


def _gspmd(module: Any) -> list[str]:
    """The shardings of GSPMD in a module, as text."""
    texts = [_sharding_of(op) for op in every(module.operation)]
    for function in [op for op in _operations(module) if op.name == "func.func"]:
        for key in {"arg_attrs", "res_attrs"} & set(function.attributes):
            each: Any
            for each in function.attributes[key]:
                texts += [each[_GSPMD].value] if _GSPMD in each else []
    return texts


def _target(op: Any) -> str:
    """What a custom call calls; empty for anything else."""
    return op.attributes["call_target_name"].value if getattr(op, "name", "") == _CALL else ""


def _sharding_of(op: Any) -> str:
    """An op's sharding of GSPMD; empty if it has none."""
    return op.attributes[_GSPMD].value if _GSPMD in op.attributes else ""


def every(op: Any) -> list[Any]:
    """The op and all ops inside it, in program order."""
    found: list[Any] = []

    def visit(inner: Any) -> Any:
        found.append(inner)
        return mlir.WalkResult.ADVANCE

    op.walk(visit, mlir.WalkOrder.PRE_ORDER)
    return found


def _write_slices(function: Any, meshes: dict[str, Axes]) -> None:
    """Writes Shardy's composites `sdy.all_slice`, each device's part of what all have, as partitions along axes.

    The result's sharding names all axes, of which the operand may have been split along the first ones: what the shapes
    leave to do is a dim's last axes. A composite that no such axes explain is left to its decomposition.
    """
    for op in [view.operation for view in function.regions[0].blocks[0].operations]:
        attributes = op.attributes.get("composite_attributes", {})
        if (
            op.name != "stablehlo.composite"
            or op.attributes["name"].value != ALL_SLICE
            or "out_sharding" not in attributes
        ):
            continue
        steps = _slices(
            sdy.TensorShardingAttr(attributes["out_sharding"]), op.operands[0].type, op.results[0].type, meshes
        )
        if steps is None:
            continue
        value, shape = op.operands[0], list(op.operands[0].type.shape)
        for axis, dim, size in steps:
            shape[dim] //= size
            kind = mlir.RankedTensorType.get(shape, op.operands[0].type.element_type)
            with mlir.InsertionPoint(op), op.location:
                value = _call(MESH_PARTITION, value, kind, {"cluster_axis": str(axis), "dim": str(dim)})
        op.results[0].replace_all_uses_with(value)
        op.erase()


def _slices(sharding: Any, whole: Any, part: Any, meshes: dict[str, Axes]) -> list[tuple[int, int, int]] | None:
    """(axis of the mesh, dim, its size) of each step from a type to its part, in the order of dims' first axes; None if
    none lead there."""
    mesh = meshes.get(str(sharding.mesh_or_ref).lstrip("@"))
    texts = [str(dim) for dim in sharding.dimension_shardings]
    if (
        mesh is None
        or not len(texts) == len(whole.shape) == len(part.shape)
        or any("?" in t or ":" in t for t in texts)
    ):
        return None
    sizes, numbers = dict(mesh), {axis: at for at, (axis, _) in enumerate(mesh)}
    steps: list[list[tuple[int, int, int]]] = []
    for dim, text in enumerate(texts):
        axes = [axis for axis in _AXIS.findall(text) if sizes[axis] > 1]
        lasts = [axes[at:] for at in range(len(axes) + 1)]
        left = [last for last in lasts if part.shape[dim] * math.prod(sizes[axis] for axis in last) == whole.shape[dim]]
        if not left:
            return None
        steps.append([(numbers[axis], dim, sizes[axis]) for axis in left[0]])
    return [step for of_dim in sorted(steps) for step in of_dim]


def _mesh_shard(value: Any, kind: Any, cut: Cut, direction: str) -> Any:
    """A call that cuts or joins a value."""
    words = {
        "shard_dims": json.dumps([-1] if cut.whole else list(cut.dims)),
        "shard_shape": json.dumps([1] if cut.whole else list(cut.shape)),
        "shard_direction": direction,
        "shard_type": "replicate" if cut.whole else "devices",
    }
    return _call(MESH_SHARD, value, kind, words)


def _call(target: str, value: Any, kind: Any, words: dict[str, str]) -> Any:
    """The result of a custom call with these attributes, in the context's place."""
    attributes = {
        "call_target_name": mlir.StringAttr.get(target),
        "api_version": mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), 0),
        "mhlo.frontend_attributes": mlir.DictAttr.get({key: mlir.StringAttr.get(word) for key, word in words.items()}),
    }
    call = mlir.Operation.create("stablehlo.custom_call", results=[kind], operands=[value], attributes=attributes)
    return call.results[0]


def _cuts(per_value: Any, meshes: dict[str, Axes]) -> list[Cut]:
    cuts = []
    for sharding in sdy.TensorShardingPerValueAttr(per_value).shardings:
        sharding_of = sdy.TensorShardingAttr(sharding)
        mesh = meshes[str(sharding_of.mesh_or_ref).lstrip("@")]
        names = [_AXIS.findall(str(dim)) for dim in sharding_of.dimension_shardings]
        dims = tuple(
            next((at for at, axes in enumerate(names) if axis in axes and size > 1), -1) for axis, size in mesh
        )
        sizes = dict(mesh)
        cuts.append(Cut(dims, tuple(math.prod(sizes[axis] for axis in axes) for axes in names)))
    return cuts


def _spans(op: Any, meshes: dict[str, Axes]) -> bool:
    """Whether a manual computation is over all axes of one mesh that have several devices, nothing inside sharded."""
    axes = set(_AXIS.findall(str(op.attributes["manual_axes"])))
    texts = f"{op.attributes['in_shardings']} {op.attributes['out_shardings']}"
    used = {name for name in meshes if re.search(rf"@{re.escape(name)}\b", texts)}
    plain = len(used) == 1 and '":' not in texts  # `"x":(1)2` is a part of an axis
    inside = any(sharding_in(view.operation) for block in op.regions[0].blocks for view in block.operations)
    return plain and not inside and all(name in axes or size == 1 for mesh in used for name, size in meshes[mesh])


def _meshes(module: Any) -> dict[str, Axes]:
    """The meshes by name, of two axes at least: tt-mlir's have rows and columns. One with an order of its own is left
    out."""
    meshes: dict[str, Axes] = {}
    for op in _operations(module):
        if op.name == MESH:
            mesh = sdy.MeshAttr(op.attributes["mesh"])
            axes = tuple((sdy.MeshAxisAttr(axis).name, sdy.MeshAxisAttr(axis).size) for axis in mesh.axes)
            if not list(mesh.device_ids):
                meshes[op.attributes["sym_name"].value] = (("", 1),) * (2 - len(axes)) + axes
    return meshes


def _annotated(function: Any, name: str) -> list[Any]:
    """The arguments that have an attribute of this name."""
    arguments = function.regions[0].blocks[0].arguments if "arg_attrs" in function.attributes else []
    return [a for a, of in zip(arguments, function.attributes.get("arg_attrs", ()), strict=False) if name in of]


def _drop_shardings(function: Any, name: str) -> None:
    for key in {"arg_attrs", "res_attrs"} & set(function.attributes):
        kept = [
            mlir.DictAttr.get({entry.name: entry.attr for entry in mlir.DictAttr(attributes) if entry.name != name})
            for attributes in function.attributes[key]
        ]
        function.attributes[key] = mlir.ArrayAttr.get(kept)


def _set_type(function: Any) -> None:
    (block,) = function.regions[0].blocks
    end = list(block.operations)[-1].operation
    kind = mlir.FunctionType.get([a.type for a in block.arguments], [v.type for v in end.operands])
    function.attributes["function_type"] = mlir.TypeAttr.get(kind)


def _entry(module: mlir.Module) -> Any:
    """The function `main`, or the first one. Raises CompilerInputError if there is none."""
    functions = {op.attributes["sym_name"].value: op for op in _operations(module) if op.name == "func.func"}
    if not functions:
        raise CompilerInputError("module: expected a function @main, got no function")
    return functions.get("main") or next(iter(functions.values()))


def _operations(module: Any) -> list[Any]:
    (block,) = module.operation.regions[0].blocks
    return [view.operation for view in block.operations]
