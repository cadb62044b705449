"""A module gives the same bits through the Python API as the binary that `opscope plan -o` writes for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from opscope import pybuda
from opscope.compiler.commands.plan import plan_command
from opscope.compiler.target import binary
from opscope.simulator.api import Device
from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.hosted_program import in_order


def planned(program: CardProgram, folder: Path) -> bytes:
    """The binary of the module's StableHLO, by the command."""
    source, output = folder / "module.mlirbc", folder / "planned.ttnn"
    source.write_bytes(program.exported.bytecode)
    done = CliRunner().invoke(plan_command, [str(source), "--arch", program.compilation.board, "-o", str(output)])
    assert done.exit_code == 0, done.output
    return output.read_bytes()


def outputs_of(data: bytes, queues: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Runs a planned binary on contents of queues by name: inputs have forward's names in a program, numbers here."""
    read = binary.read(data)
    names = {queue.tensor: queue.name for queue in read.plan.queues if queue.source == "HOST"}
    others = [name for name in names.values() if name not in queues and name.startswith("arg")]
    numbered = sorted(others, key=lambda name: int(name.removeprefix("arg")))
    named = [name for name in queues if name not in names.values()]
    queues = {**queues, **{number: queues[name] for number, name in zip(numbered, named, strict=True)}}
    program = read.programs[0]
    moved = {op.inputs[0]: op.outputs[0] for op in reversed(program.operations) if op.inputs and op.outputs}
    inputs = [np.ascontiguousarray(queues[names[moved[tensor]]], np.float32) for tensor in program.inputs]
    return Device(read.board).load(data).run(inputs).outputs


def check(module: Any, inputs: list[np.ndarray], arch: Any, folder: Path) -> CardProgram:
    device = pybuda.TTDevice("tt0", arch=arch, module=module)
    results = pybuda.run_inference(inputs=[tuple(inputs)], _sequential=True).get()
    (program,) = device.compiled
    assert not program.compilation.lowering.refused
    arguments = in_order(program.hosted, inputs, program.values)
    expected = outputs_of(planned(program, folder), program.loaded.queues(arguments)[0])
    for got, wanted in zip(results, expected, strict=True):
        value = got.numpy()
        assert np.isfinite(value).all()
        assert np.array_equal(value, wanted.reshape(value.shape).astype(value.dtype))
    return program


def test_a_small_model(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8

    class Layer(pybuda.PyBudaModule):
        def __init__(self) -> None:
            super().__init__("layer")
            self.weights = pybuda.Parameter(weights)

        def forward(self, x: Any) -> Any:
            return pybuda.op.Softmax("soft", pybuda.op.Matmul("product", x, self.weights), dim=-1)

    x = np.random.default_rng(1).standard_normal((1, 32, 64)).astype(np.float32)
    check(Layer(), [x], pybuda.BackendDevice.Grayskull, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert_base", "resnet50"])
def test_a_model_of_the_zoo(name: str, tmp_path: Path) -> None:
    import jax.numpy as jnp

    from opscope.models import registry
    from opscope.models.seeding import draw

    built = registry.get(name).build("float32")
    values = {spec.name: draw(spec.law, spec.shape, spec.dtype, 0, i) for i, spec in enumerate(built.arguments)}
    taken = [spec.name for spec in built.arguments if spec.role == "input"]
    weights = {key: jnp.asarray(value) for key, value in values.items() if key not in taken}

    def forward(*arrays: Any) -> Any:
        return built.forward({**weights, **dict(zip(taken, arrays, strict=True))})

    module = pybuda.JaxModule(name, forward)
    check(module, [values[key] for key in taken], pybuda.BackendDevice.Wormhole_B0, tmp_path)
