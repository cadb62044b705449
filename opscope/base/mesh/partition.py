"""Turns a sharded module into the program that each device of a mesh runs: local shapes, explicit collectives.

XLA's own partitioner does it (Shardy's propagation, then SPMD partitioning), in a child, because XLA aborts on what it
does not take and reads its flags at a start. Shardy's own export passes, which jaxlib registers too, are not used: they
split a convolution along space without the rows that its neighbours hold, and abort on gathers, slices and loops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.machine import memory_limit
from opscope.base.mesh.shardings import GSPMD, option_that_splits, sharding_in
from opscope.base.temporary_folder import TemporaryFolder

SECONDS = 600.0
_SOURCE, _LOCAL = "module.mlir", "local.mlirbc"
_ARTIFACT = b"StableHLO_v"
"""What the head of a portable artifact names as its producer."""
_DUMPED = "*after_spmd-partitioning*.hlo.pb"
"""The file that XLA writes after its partitioner."""
_FLAGS = "--xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=spmd.* --xla_enable_rgv3_materialization=false"
"""The last has groups written as lists of devices: jaxlib reads groups along axes of a mesh without the order of its
devices, so that they would name others."""
_REFUSED, _INPUT = "refused", "input"
_OF_PARAMETERS, _OF_RESULTS = "mhlo.spmd_parameters_shardings", "mhlo.spmd_output_sharding"
_OF_DEVICES = frozenset({"stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.reduce_scatter"})
"""Ops whose groups are of replicas unless they say that they are of devices."""
_MOVES = frozenset(f"sdy.{name}" for name in ("all_gather", "all_slice", "all_to_all", "collective_permute"))
"""Ops whose result is their operand with the sharding `out_sharding`."""
MESH_FORM = re.compile(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*")
MOST_DEVICES = 4096
"""Devices of a mesh: XLA starts threads for each."""


class NotPartitioned(Exception):
    """XLA does not partition the module; the text says why."""


class WrongInput(ValueError):
    """A text that is no mesh, a module that cannot be read, or one for another mesh: `<where>: expected X, got Y`."""


@dataclass(frozen=True)
class Partitioned:
    """What each device of a mesh runs, and how the arguments and results of the whole are split over them."""

    bytecode: bytes
    arguments: tuple[str, ...]
    """The sharding of each argument as XLA writes it (`placement.py` reads it); the same number as the module has."""
    results: tuple[str, ...]


def devices_of(mesh: str) -> int:
    """Returns how many devices `2x4` has. Raises WrongInput if that is no mesh."""
    if not MESH_FORM.fullmatch(mesh):
        raise WrongInput(f"--mesh: expected sizes of axes, got {mesh!r}; try 2x4")
    devices = math.prod(int(size) for size in mesh.split("x"))
    if devices > MOST_DEVICES:
        raise WrongInput(f"--mesh: expected at most {MOST_DEVICES:,} devices, got {mesh!r}; try 2x4")
    return devices


def partitioned(module: bytes | str, devices: int, *, memory: int | None = None) -> Partitioned:
    """Returns the program that each of `devices` devices runs; what the module computes, all of them together do.

    The child may hold `memory` bytes. Raises NotPartitioned if XLA does not partition the module, WrongInput if the
    module cannot be read or is for another number of devices.
    """
    flags = f"--xla_force_host_platform_device_count={devices} {_FLAGS}"
    with TemporaryFolder("partition") as folder:
        (Path(folder) / _SOURCE).write_bytes(module.encode() if isinstance(module, str) else module)
        outcome = call(
            "opscope.base.mesh.partition:in_child",
            {"folder": folder, "devices": devices},
            seconds=SECONDS,
            memory=memory_limit(memory),
            environment={"XLA_FLAGS": f"{flags} --xla_dump_to={folder}"},
        )
        result = outcome.result or {}
        if _INPUT in result:
            raise WrongInput(result[_INPUT])
        if not outcome.ending.ok or _REFUSED in result:
            why = result.get(_REFUSED) or f"{outcome.ending.text}: {outcome.log.last_line()}"
            raise NotPartitioned(f"expected a module that XLA partitions over {devices} devices, got: {why}")
        bytecode = (Path(folder) / _LOCAL).read_bytes()
        return Partitioned(bytecode, tuple(result["arguments"]), tuple(result["results"]))


def in_child(parent: Parent) -> dict[str, Any]:
    """Partitions the module of a task's folder. Returns the shardings of arguments and results, or why there is no
    program."""
    import jaxlib.mlir.ir as mlir
    from jaxlib import xla_client
    from jaxlib._jax import mlir as hlo

    task = parent.receive() or {}
    folder, devices = Path(task["folder"]), int(task["devices"])
    source = (folder / _SOURCE).read_bytes()
    context = _context()
    with context, mlir.Location.unknown():
        try:
            parsed = _parsed(context, source)
        except (mlir.MLIRError, ValueError) as error:
            return {_INPUT: f"module: expected valid StableHLO, got {_first_line(error)}"}
        sizes = set(_device_counts(parsed.operation)) - {1}
        if sizes - {devices}:
            way_out = option_that_splits(parsed.operation)
            return {_INPUT: f"--mesh: expected {max(sizes)} devices, as the module has, got {devices}; try {way_out}"}
        _name_main(parsed)
        _constrain(parsed)
        shardy = "sdy." in str(parsed.operation.get_asm(large_elements_limit=1))
        text = str(parsed.operation.get_asm(enable_debug_info=True))
    client = xla_client.make_cpu_client(asynchronous=False, num_nodes=1)
    refused = ""
    try:
        client.compile_and_load(text, xla_client.DeviceList(tuple(client.devices())), _options(devices, shardy))
    except Exception as error:  # noqa: BLE001 - the partitioner may have ended before the CPU's backend refused
        refused = _first_line(error)
    dumped = sorted(folder.glob(_DUMPED))
    if not dumped:
        return {_REFUSED: refused or "no partitioned module"}
    stablehlo = hlo.hlo_to_stablehlo(_module_of(dumped[-1].read_bytes()))
    with context, mlir.Location.unknown():
        local = mlir.Module.parse(stablehlo)
        split = _shardings(local)
        try:
            _clean(local, devices)
        except ValueError as error:
            return {_REFUSED: str(error)}
        if left := sharding_in(local.operation):
            return {_REFUSED: f"a sharding was left: {left[0]}: {left[1]}"}
        with (folder / _LOCAL).open("wb") as file:
            local.operation.write_bytecode(file)
    return split


def _context() -> Any:
    """A context with every dialect that a sharded module may have."""
    import jaxlib.mlir.ir as mlir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    context, registry = mlir.Context(), mlir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.enable_multithreading(False)
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    context.load_all_available_dialects()
    return context


def _parsed(context: Any, source: bytes) -> Any:
    """The module of text, bytecode or a portable artifact. Raises MLIRError or ValueError."""
    import jaxlib.mlir.ir as mlir
    from jaxlib.mlir.dialects import stablehlo

    if _ARTIFACT in source.partition(b"\0")[0]:
        return stablehlo.deserialize_portable_artifact(context, source)
    return mlir.Module.parse(source if source.startswith(b"ML\xef") else source.decode())


def _name_main(module: Any) -> None:
    """Names the entry `main`, as XLA asks for, where it is the only public function and has another name."""
    import jaxlib.mlir.ir as mlir

    functions = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
    names = {op.attributes["sym_name"].value: op for op in functions}
    public = [
        name
        for name, op in names.items()
        if "sym_visibility" not in op.attributes or op.attributes["sym_visibility"].value == "public"
    ]
    if len(public) != 1 or public == ["main"]:
        return
    free = next(f"main_{number}" for number in range(len(names) + 1) if f"main_{number}" not in names)
    for old, new in (("main", free), (public[0], "main")):
        if old in names:
            mlir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
            names[old].attributes["sym_name"] = mlir.StringAttr.get(new)


def _constrain(module: Any) -> None:
    """Turns Shardy's ops that only move a tensor to another sharding, which XLA does not read, into constraints."""
    import jaxlib.mlir.ir as mlir

    moves: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in _MOVES:
            moves.append(op)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in moves:
        types, sharding = [op.results[0].type], {"sharding": op.attributes["out_sharding"]}
        point = mlir.InsertionPoint(op)
        new = mlir.Operation.create(
            "sdy.sharding_constraint", types, [op.operands[0]], sharding, ip=point, loc=op.location
        )
        op.results[0].replace_all_uses_with(new.results[0])
        op.erase()


def _first_line(error: BaseException) -> str:
    """The first line of an error's text that says something."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else type(error).__name__)[:300]


def _shardings(local: Any) -> dict[str, list[str]]:
    """How XLA has split the arguments and the results, one text each."""
    attributes = local.operation.attributes
    parameters = [text.value for text in attributes[_OF_PARAMETERS]] if _OF_PARAMETERS in attributes else []
    results = attributes[_OF_RESULTS].value if _OF_RESULTS in attributes else ""
    inner = re.findall(r"\{[^{}]*\}", results)
    return {"arguments": parameters, "results": inner}


def _options(devices: int, shardy: bool) -> Any:
    import numpy as np
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.num_partitions = devices
    build = options.executable_build_options
    build.num_partitions = devices
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = shardy
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices, dtype=np.int32)[None])
    build.debug_options.xla_backend_optimization_level = 0
    return options


def _device_counts(module: Any) -> Iterator[int]:
    """How many devices the module's meshes and its own attribute name."""
    if "mhlo.num_partitions" in module.attributes:
        yield module.attributes["mhlo.num_partitions"].value
    for view in module.regions[0].blocks[0].operations:
        if view.operation.name == "sdy.mesh":
            yield math.prod(int(size) for size in re.findall(r'"=(\d+)', str(view.operation.attributes["mesh"])))


def _module_of(data: bytes) -> bytes:
    """The HloModuleProto in an HloProto, whose first field it is."""
    length = shift = 0
    for place in range(1, len(data)):
        length |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return data[place + 1 : place + 1 + length]
    raise ValueError("expected an HloProto, got a truncated one")


def _clean(module: Any, devices: int) -> None:
    """Drops XLA's copies, which order its buffers, and the shardings of arguments and results, whose shapes are local.

    Raises ValueError for groups that are no lists of devices.
    """
    import jaxlib.mlir.ir as mlir

    copies: list[Any] = []
    foreign: list[Any] = []
    channel = mlir.Attribute.parse("#stablehlo.channel_handle<handle = 1, type = 0>")

    def visit(op: Any) -> Any:
        if op.name == "sdy.mesh" or "mesh_axes" in str(op.attributes.get("replica_groups")):
            raise ValueError(f"{op.name} with groups along a mesh, whose order of devices jaxlib does not keep")
        if op.name == "mhlo.copy":
            copies.append(op)
        elif op.name.startswith("mhlo."):
            foreign.append(op)
        if op.name in _OF_DEVICES and _names_devices(op):
            op.attributes["use_global_device_ids"] = mlir.UnitAttr.get()
        if "channel_handle" in op.attributes:  # numbered anew for each collective: equal ones are to be equal
            op.attributes["channel_handle"] = channel
        for key in {"arg_attrs", "res_attrs", *GSPMD} & set(op.attributes):
            del op.attributes[key]
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in copies:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    for op in foreign:
        _as_chlo(op)
    module.operation.attributes["mhlo.num_replicas"] = mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), 1)
    module.operation.attributes["mhlo.num_partitions"] = mlir.IntegerAttr.get(
        mlir.IntegerType.get_signless(32), devices
    )


def _names_devices(op: Any) -> bool:
    """Whether groups that are those of replicas by the specification name more than the one replica that there is.

    tt-mlir writes the numbers of devices without saying so (`use_global_device_ids`).
    """
    channel = (
        re.search(r"handle = [1-9]", str(op.attributes["channel_handle"]))
        if "channel_handle" in op.attributes
        else None
    )
    groups = op.attributes["replica_groups"]
    count = math.prod(groups.type.shape)
    return (
        channel is not None
        and "use_global_device_ids" not in op.attributes
        and any(groups[at] > 0 for at in range(count))
    )


def _as_chlo(op: Any) -> None:
    """Replaces an op that HLO has and StableHLO lacks (`mhlo.erf`, `mhlo.topk`) by its name in CHLO, if it has one."""
    import jaxlib.mlir.ir as mlir

    own = str(op.name)
    name = "chlo.top_k" if own == "mhlo.topk" else own.replace("mhlo.", "chlo.")
    largest = name != "chlo.top_k" or "largest" not in op.attributes or op.attributes["largest"].value
    if not op.context.is_registered_operation(name) or not largest or len(op.regions):
        return
    attributes = {key: op.attributes[key] for key in {"k"} & set(op.attributes)}
    types, point = [result.type for result in op.results], mlir.InsertionPoint(op)
    new = mlir.Operation.create(name, types, list(op.operands), attributes, ip=point, loc=op.location)
    for old, fresh in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(fresh)
    op.erase()
