"""Runs an op that several devices compute together on XLA, on as many devices of the host, in a child.

The number of the host's devices is a flag that XLA reads at its start, so that it takes a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.machine import memory_limit
from opscope.base.temporary_folder import TemporaryFolder
from opscope.base.xla.xla_releases import XLA_FLAGS
from opscope.harness.prepare.golden import GoldenError
from opscope.harness.record.element_types import load, save

SECONDS = 300.0
_MODULE = "module.mlirbc"
_DEVICES = "--xla_force_host_platform_device_count"


def run(module: bytes, inputs: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """The results of each device, from the inputs of each. Raises GoldenError with XLA's own message.

    The module is that of as many partitions; it runs as that of as many replicas, for which a client needs no
    partitioner.
    """
    from opscope.harness.prepare import mlir
    from opscope.harness.prepare.mlir.collective_groups import among_replicas

    devices = len(inputs)
    try:
        replicas, takes, gives = among_replicas(module, devices)
    except ValueError as error:
        raise GoldenError(str(error)) from error
    with TemporaryFolder("devices") as folder:
        (Path(folder) / _MODULE).write_bytes(mlir.to_bytecode(replicas))
        for device, arrays in enumerate(inputs):
            for number, array in enumerate(arrays):
                save(Path(folder) / _name("in", device, number), array)
        types = [(desc.shape, desc.data_type) for desc in takes]
        theirs = os.environ.get(XLA_FLAGS, "")
        outcome = call(
            "opscope.harness.prepare.mesh.host_devices:in_child",
            {"folder": folder, "devices": devices, "types": types},
            seconds=SECONDS,
            memory=memory_limit(None),
            environment={XLA_FLAGS: f"{theirs} {_DEVICES}={devices}".strip(), "JAX_PLATFORMS": "cpu"},
        )
        if not outcome.ending.ok or outcome.result:
            raise GoldenError(str(outcome.result or f"{outcome.ending.text}: {outcome.log.last_line()}")[:200])
        return [
            [load(Path(folder) / _name("out", device, k), d.shape, d.data_type) for k, d in enumerate(gives)]
            for device in range(devices)
        ]


def _name(kind: str, device: int, number: int) -> str:
    return f"{kind}.{device}.{number}.npy"


def in_child(parent: Parent) -> str:
    """Runs the module of a task's folder. Returns an empty text, or XLA's message."""
    import jax
    from jaxlib import xla_client

    task = parent.receive() or {}
    folder, devices = Path(task["folder"]), int(task["devices"])
    host = jax.devices("cpu")
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = devices
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices, dtype=np.int32)[:, None])
    build.debug_options.xla_cpu_enable_fast_math = False
    jax.config.update("jax_enable_x64", True)
    mesh = jax.sharding.Mesh(np.array(host), ("device",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    try:
        module = (folder / _MODULE).read_bytes()
        loaded = host[0].client.compile_and_load(module, xla_client.DeviceList(tuple(host)), options)
        wholes = []
        for number, (shape, kind) in enumerate(task["types"]):
            parts = [load(folder / _name("in", device, number), shape, kind) for device in range(devices)]
            shards = [jax.device_put(part, device) for part, device in zip(parts, host, strict=True)]
            # Replicated in name: each device has an array of the whole's shape, with values of its own.
            wholes.append(jax.make_array_from_single_device_arrays(tuple(shape), everywhere, shards))
        results = loaded.execute_sharded(wholes).disassemble_into_single_device_arrays()
        for number, of_devices in enumerate(results):
            for device, array in enumerate(of_devices):
                save(folder / _name("out", device, number), np.asarray(array))
    except Exception as error:  # noqa: BLE001 - the client raises many types
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ""
