"""Every device tensor is freed once, after its last reader."""

from __future__ import annotations

import jax
import numpy as np

from opscope.compiler import api
from opscope.compiler.passes.ttnn_deallocate import TtnnDeallocate
from opscope.compiler.target import binary
from opscope.compiler.tests import programs


def layered(x):
    for _ in range(4):
        x = jax.nn.softmax(x @ x) + x
    return x, x.sum()


def test_every_device_tensor_is_freed_exactly_once_after_its_last_use():
    data = api.compile(programs.stablehlo(layered, np.ones((4, 4), np.float32)), programs.BOARD)
    program = binary.read(data).programs[0]
    freed: set[int] = set()
    for op in program.operations:
        assert not freed & set(op.inputs), "read after free"
        if op.kernel == "deallocate":
            freed.update(op.inputs)
    on_device = {i for i, t in enumerate(program.tensors) if t.buffer_type != "system_memory"}
    assert freed == on_device


def test_a_second_run_changes_nothing():
    module = api.ttir_to_ttnn(
        api.stablehlo_to_ttir(programs.stablehlo(layered, np.ones((4, 4), np.float32))), programs.BOARD
    )
    before = len(programs.op_names(module))
    from opscope.compiler.ir.context import context

    TtnnDeallocate().apply(context(), module)
    assert len(programs.op_names(module)) == before
