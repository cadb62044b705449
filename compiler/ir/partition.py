"""Turns a sharded module into the program that each device of a mesh runs: local shapes, explicit collectives.

XLA's own partitioner does it (Shardy's propagation, then SPMD partitioning), in a child, because XLA aborts on what it
does not take and reads its flags at a start. Shardy's own export passes, which jaxlib registers too, are not used: they
split a convolution along space without the rows that its neighbours hold, and abort on gathers, slices and loops.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.machine import memory_limit
from opscope.base.shardings import GSPMD, sharding_in
from opscope.compiler.errors import CompilerInputError, StageFailure

STAGE = "stablehlo-to-ttir"
SECONDS = 600.0
_SOURCE, _LOCAL = "module.mlir", "local.mlirbc"
_DUMPED = "*after_spmd-partitioning*.hlo.pb"
"""The file that XLA writes after its partitioner."""
_FLAGS = "--xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=spmd.* --xla_enable_rgv3_materialization=false"
"""The last has groups written as lists of devices: jaxlib reads groups along axes of a mesh without the order of its
devices, so that they would name others."""
_REFUSED = "refused"
MESH_FORM = re.compile(r"[1-9]\d*(x[1-9]\d*)*")


def devices_of(mesh: str) -> int:
    """Returns how many devices `2x4` has. Raises CompilerInputError if that is no mesh."""
    if not MESH_FORM.fullmatch(mesh):
        raise CompilerInputError(f"--mesh: expected sizes of axes, got {mesh!r}; try 2x4")
    return math.prod(int(size) for size in mesh.split("x"))


def partitioned(module: bytes | str, devices: int) -> bytes:
    """Returns the program that each of `devices` devices runs, as bytecode; what it computes, all of them together do.

    Raises StageFailure if XLA does not partition the module, CompilerInputError if the module is for another number.
    """
    flags = f"--xla_force_host_platform_device_count={devices} {_FLAGS}"
    with tempfile.TemporaryDirectory(prefix="opscope-partition-") as folder:
        (Path(folder) / _SOURCE).write_bytes(module.encode() if isinstance(module, str) else module)
        outcome = call(
            "opscope.compiler.ir.partition:in_child",
            {"folder": folder, "devices": devices},
            seconds=SECONDS,
            memory=memory_limit(None),
            environment={"XLA_FLAGS": f"{flags} --xla_dump_to={folder}"},
        )
        result = outcome.result or {}
        if "input" in result:
            raise CompilerInputError(result["input"])
        if not outcome.ending.ok or _REFUSED in result:
            why = result.get(_REFUSED) or outcome.ending.text
            message = f"expected a module that XLA partitions over {devices} devices, got: {why}"
            raise StageFailure(STAGE, "module", message[:300], kind="notimpl", diagnostic=why)
        return (Path(folder) / _LOCAL).read_bytes()


def in_child(parent: Parent) -> dict[str, str]:
    """Partitions the module of a task's folder. Returns an empty answer, or why there is no program."""
    import jaxlib.mlir.ir as mlir
    from jaxlib import xla_client
    from jaxlib._jax import mlir as hlo
    from jaxlib.mlir.dialects import mhlo

    task = parent.receive() or {}
    folder, devices = Path(task["folder"]), int(task["devices"])
    from opscope.compiler.ir import door

    mhlo.register_mhlo_dialect(door.context())
    source = (folder / _SOURCE).read_bytes()
    with door.context() as ctx, mlir.Location.unknown():
        try:
            parsed = door.parse(ctx, source)
        except CompilerInputError as error:
            return {"input": str(error)}
        sizes = set(_device_counts(parsed.operation)) - {1}
        if sizes - {devices}:
            return {"input": f"--mesh: expected {max(sizes)} devices, as the module has, got {devices}; try its mesh"}
        shardy = "sdy." in str(parsed.operation.get_asm(large_elements_limit=1))
        text = str(parsed.operation.get_asm(enable_debug_info=True))
    client = xla_client.make_cpu_client(asynchronous=False, num_nodes=1)
    refused = ""
    try:
        client.compile_and_load(text, xla_client.DeviceList(tuple(client.devices())), _options(devices, shardy))
    except Exception as error:  # noqa: BLE001 - the partitioner may have ended before the CPU's backend refused
        refused = str(error).splitlines()[0]
    dumped = sorted(folder.glob(_DUMPED))
    if not dumped:
        return {_REFUSED: refused or "no partitioned module"}
    stablehlo = hlo.hlo_to_stablehlo(_module_of(dumped[-1].read_bytes()))
    with door.context() as ctx, mlir.Location.unknown():
        local = mlir.Module.parse(stablehlo)
        try:
            _clean(local, devices)
        except ValueError as error:
            return {_REFUSED: str(error)}
        if left := sharding_in(local.operation):
            return {_REFUSED: f"a sharding was left: {left[0]}: {left[1]}"}
        with (folder / _LOCAL).open("wb") as file:
            local.operation.write_bytecode(file)
    return {}


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

    def visit(op: Any) -> Any:
        if op.name == "sdy.mesh" or "mesh_axes" in str(op.attributes.get("replica_groups")):
            raise ValueError(f"{op.name} with groups along a mesh, whose order of devices jaxlib does not keep")
        if op.name == "mhlo.copy":
            copies.append(op)
        for key in {"arg_attrs", "res_attrs", *GSPMD} & set(op.attributes):
            del op.attributes[key]
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in copies:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    module.operation.attributes["mhlo.num_replicas"] = mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), 1)
    module.operation.attributes["mhlo.num_partitions"] = mlir.IntegerAttr.get(
        mlir.IntegerType.get_signless(32), devices
    )
