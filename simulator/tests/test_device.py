"""What a device loads, allocates, refuses and repeats."""

from __future__ import annotations

import dataclasses
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target import binary
from opscope.compiler.target.program import (
    Binary,
    BroadcastParams,
    Conv2dParams,
    EltwiseParams,
    GatherParams,
    LayoutParams,
    MatmulParams,
    Numerics,
    Operation,
    Program,
    ReduceParams,
    TensorDesc,
)
from opscope.simulator.__main__ import main
from opscope.simulator.api import (
    BadBinary,
    BadInput,
    Device,
    DeviceError,
    KernelError,
    OutOfMemory,
    UnsupportedFormat,
    UnsupportedKernel,
    WrongBoard,
)
from opscope.simulator.kernels.registry import Call
from opscope.simulator.tests.programs import one_kernel, run_kernel, run_result

ROOT = Path(__file__).parents[2]
RANDOM = np.random.default_rng(21)


def test_dram_is_full_before_any_data_exists() -> None:
    huge = ((60_000, 60_000), "f32")
    made = binary.write(one_kernel("broadcast", BroadcastParams((60_000, 60_000)), [((1, 1), "f32")], huge))
    executable = Device().load(made)
    with pytest.raises(OutOfMemory, match=r"broadcast: expected at most .* bytes of dram per bank") as caught:
        executable.run([np.ones((1, 1), np.float32)])
    assert caught.value.buffer_type == "dram"
    assert caught.value.needed > 2**30 > caught.value.free > 0


def test_a_row_that_no_core_holds_is_refused() -> None:
    table = np.zeros((2, 400_000), np.float32)
    indices = np.zeros((1, 1), np.int32)
    params = GatherParams((1,), (0,), (), (), (0,), 1, (1, 400_000))
    with pytest.raises(OutOfMemory, match="circular buffers") as caught:
        run_kernel("gather", params, [table, indices], (1, 400_000), "f32")
    assert caught.value.buffer_type == "l1"
    with pytest.raises(OutOfMemory, match="argmax"):
        run_kernel("argmax", ReduceParams((1,)), [table], (2,), "i32")


def test_l1_tensors_count_against_every_core() -> None:
    shape = (1024, 1024)
    made = one_kernel("abs", EltwiseParams(), [(shape, "f32")], (shape, "f32"))
    program = made.programs[0]

    def placed(**changes: object) -> Program:
        tensors = [dataclasses.replace(t, **changes) if t.buffer_type == "dram" else t for t in program.tensors]
        return dataclasses.replace(program, tensors=tuple(tensors))

    def run(entry: Program) -> int:
        result = (
            Device().load(binary.write(dataclasses.replace(made, programs=(entry,)))).run([np.ones(shape, np.float32)])
        )
        return result.profile.l1_peak_bytes

    # 1024 tiles of 4096 bytes over 64 cores, twice, and two double-buffered operands.
    assert run(placed(buffer_type="l1")) == 2 * 16 * 4096 + 4 * 4096
    assert run(placed(buffer_type="l1", memory_layout="block_sharded", grid=(4, 4))) == 2 * 64 * 4096 + 4 * 4096
    with pytest.raises(OutOfMemory, match="of l1 per bank"):
        run(placed(buffer_type="l1", memory_layout="height_sharded", grid=(1, 1)))


def chain(free: bool) -> Binary:
    """Forty times abs, one after another, with or without freeing what is no longer needed."""
    shape = (4096, 4096)
    host = TensorDesc(shape, "f32", "Float32", "row_major", "system_memory")
    dram = TensorDesc(shape, "f32", "Float32", "tile", "dram")
    ops = [Operation("to_device", (0,), (1,), LayoutParams())]
    for step in range(1, 250):
        ops.append(Operation("abs", (step,), (step + 1,), EltwiseParams()))
        if free:
            ops.append(Operation("deallocate", (step,), (), LayoutParams()))
    return Binary("n150", "wormhole_b0", (Program("main", (host, *[dram] * 250), (0,), (), tuple(ops)),))


def test_the_command_writes_what_lies_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, array = tmp_path / "full.ttnn", tmp_path / "x.npz"
    path.write_bytes(binary.write(chain(free=False)))
    np.savez(array, np.ones((4096, 4096), np.float32))
    assert main([str(path), "--inputs", str(array), "--memory-map", str(tmp_path / "map")]) == 2
    assert capsys.readouterr().err.startswith("simulator: abs: expected at most")
    assert "tensor 1, Float32 4096x4096, since to_device" in (tmp_path / "map.txt").read_text()
    assert (tmp_path / "map.svg").read_text().startswith("<svg")
    assert main([str(path), "--inputs", str(array), "--memory-map", str(tmp_path / "no" / "map")]) == 2
    assert "expected a place for files" in capsys.readouterr().err


def test_a_harvested_card_has_fewer_cores() -> None:
    made = one_kernel("abs", EltwiseParams(), [((2048, 64), "f32")], ((2048, 64), "f32"), board="n150-harvested-2052")
    result = Device("n150-harvested-2052").load(binary.write(made)).run([np.ones((2048, 64), np.float32)])
    assert result.profile.ops[1].cores <= 56
    with pytest.raises(WrongBoard, match="n150-harvested-2052"):
        Device("n150").load(binary.write(made))


def test_deallocate_frees() -> None:
    with pytest.raises(OutOfMemory):
        _ = Device().load(binary.write(chain(free=False))).memory
    # Twelve channels allocate in step: 16,384 tiles are 1,366 in the fullest channel.
    assert Device().load(binary.write(chain(free=True))).memory.dram_peak == 2 * 1366 * 4096 * 12


def test_what_is_known_of_an_operation_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    call_of = Call.of.__func__  # type: ignore[attr-defined]

    def noted(cls: type[Call], op: Operation, *rest: Any, **named: Any) -> Call:
        prepared.append(op.kernel)
        return call_of(cls, op, *rest, **named)

    monkeypatch.setattr(Call, "of", classmethod(noted))
    executable = Device().load(binary.write(one_kernel("add", EltwiseParams(), [((2, 3), "f32")] * 2, ((2, 3), "f32"))))
    x = np.ones((2, 3), np.float32)
    executable.run([x, x])
    assert "add" in prepared
    prepared.clear()
    assert np.array_equal(executable.run([x, x + 1]).outputs[0], x + x + 1)
    assert not prepared


def test_a_freed_tensor_cannot_be_read() -> None:
    made = one_kernel("abs", EltwiseParams(), [((2,), "f32")], ((2,), "f32"))
    program = made.programs[0]
    ops = (program.operations[0], Operation("deallocate", (1,), (), LayoutParams()), *program.operations[1:])
    bad = dataclasses.replace(made, programs=(dataclasses.replace(program, operations=ops),))
    with pytest.raises(KernelError, match="expected tensor 1 to be written and not freed"):
        Device().load(binary.write(bad)).run([np.ones(2, np.float32)])


def test_what_the_loader_refuses() -> None:
    made = one_kernel("abs", EltwiseParams(), [((2,), "f32")], ((2,), "f32"))
    with pytest.raises(WrongBoard, match=r"expected a program for p150, got one for n150.*; try"):
        Device("p150").load(binary.write(made))
    with pytest.raises(BadBinary, match="checksum"):
        Device().load(binary.write(made)[:-1] + b"x")
    with pytest.raises(BadBinary, match="at least one program"):
        Device().load(binary.write(Binary("n150", "wormhole_b0")))
    with pytest.raises(UnsupportedKernel, match="got 'frobnicate'"):
        Device().load(binary.write(one_kernel("frobnicate", EltwiseParams(), [((2,), "f32")], ((2,), "f32"))))
    with pytest.raises(UnsupportedKernel, match="with EltwiseParams, got 1 inputs with MatmulParams"):
        Device().load(binary.write(one_kernel("abs", MatmulParams(), [((2,), "f32")], ((2,), "f32"))))
    with pytest.raises(UnsupportedFormat, match="Dst of Float16_b, Float16 on e150, got Float32"):
        Device("e150").load(
            binary.write(one_kernel("abs", EltwiseParams(), [((2,), "f32")], ((2,), "f32"), board="e150"))
        )
    with pytest.raises(ValueError, match="try n150"):
        Device("n151")


def test_damage_with_a_good_checksum_is_a_typed_refusal() -> None:
    """Whatever a byte in the file is changed to, the device runs what it says or names what is wrong with it."""
    shape = ((8, 8), "f32")
    body = binary.unframe(binary.write(one_kernel("matmul", MatmulParams(), [shape, shape], shape)))
    inputs, device, random = [np.ones((8, 8), np.float32)] * 2, Device(), np.random.default_rng(5)
    refused: set[str] = set()
    for _ in range(600):
        damaged = bytearray(body)
        damaged[random.integers(0, len(body))] = random.integers(0, 256)
        try:
            device.load(binary.frame(bytes(damaged))).run(inputs)
        except DeviceError as error:
            refused.add(type(error).__name__)
    assert {"BadBinary", "UnsupportedFormat", "UnsupportedKernel"} <= refused


def test_no_bytes_are_no_binary() -> None:
    for bad in (None, "program.ttnn", 5):
        with pytest.raises(BadBinary, match="load: expected the bytes of a program"):
            Device().load(bad)


def test_a_board_of_sixteen_bit_dst_computes_bfloat16() -> None:
    numerics = Numerics(dst_format="Float16_b")
    made = one_kernel("exp", EltwiseParams(), [((3,), "bf16")], ((3,), "bf16"), numerics, board="e150")
    x = np.array([0, 1, 2], ml_dtypes.bfloat16)
    got = Device("e150").load(binary.write(made)).run([x]).outputs[0]
    assert got.tolist() == [1, 2.71875, 7.375]


def test_inputs_are_checked() -> None:
    executable = Device().load(binary.write(one_kernel("abs", EltwiseParams(), [((2,), "f32")], ((2,), "f32"))))
    one = np.ones(2, np.float32)
    for bad in ([], [one[:1]], [one.astype(np.float64)], [one.tolist()], one[None], None):
        with pytest.raises(BadInput, match="run: expected"):
            executable.run(bad)


def test_a_result_of_another_shape_is_refused() -> None:
    with pytest.raises(KernelError, match=r"abs: expected a result of shape \(3,\), got \(2,\)"):
        run_kernel("abs", EltwiseParams(), [np.ones(2, np.float32)], (3,), "f32")
    with pytest.raises(KernelError, match="matmul: expected operands that go together"):
        run_kernel("matmul", MatmulParams(), [np.ones((2, 3), np.float32)] * 2, (2, 3), "f32")


def test_inputs_are_left_alone_and_runs_repeat() -> None:
    x = RANDOM.standard_normal((5, 7)).astype(np.float32)
    before = x.copy()
    executable = Device().load(binary.write(one_kernel("exp", EltwiseParams(), [(x.shape, "f32")], (x.shape, "f32"))))
    first, second = executable.run([x]), executable.run([x])
    assert np.array_equal(x, before)
    assert first.outputs[0].tobytes() == second.outputs[0].tobytes()
    assert first.profile == second.profile
    first.outputs[0][:] = 0
    assert np.array_equal(x, before), "outputs are fresh arrays"


def test_narrow_formats_of_wide_types_lose_bits() -> None:
    x = RANDOM.standard_normal((64, 64)).astype(np.float32)
    errors = []
    for fmt in ("Float32", "Float16_b", "Bfp8_b", "Bfp4_b"):
        got = run_kernel("neg", EltwiseParams(), [x], x.shape, "f32", data_format=fmt)
        assert got.dtype == np.float32
        errors.append(float(np.linalg.norm(got + x) / np.linalg.norm(x)))
    assert errors[0] == 0 < errors[1] < errors[2] < errors[3] < 0.3


# The width 6 and a 1x1 window give two columns for a stride of 3 and of 4: only which ones differs.
STRIDED = one_kernel(
    "conv2d",
    Conv2dParams((2, 3), (0, 0, 0, 0), (1, 1)),
    [((1, 1, 6, 1), "f32"), ((1, 1, 1, 1), "f32")],
    ((1, 1, 2, 1), "f32"),
)
ROW = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6, 1)
ONE = np.ones((1, 1, 1, 1), np.float32)


def test_one_stride_inside_the_file_changes_the_result() -> None:
    assert Device().load(binary.write(STRIDED)).run([ROW, ONE]).outputs[0].ravel().tolist() == [1, 4]
    program = STRIDED.programs[0]
    ops = tuple(
        dataclasses.replace(op, params=dataclasses.replace(op.params, stride=(2, 4))) if op.kernel == "conv2d" else op
        for op in binary.read(binary.write(STRIDED)).programs[0].operations
    )
    changed = dataclasses.replace(STRIDED, programs=(dataclasses.replace(program, operations=ops),))
    assert Device().load(binary.write(changed)).run([ROW, ONE]).outputs[0].ravel().tolist() == [1, 5]


def test_one_stride_patched_in_the_bytes_changes_the_result() -> None:
    body = binary.unframe(binary.write(STRIDED))
    stride = struct.pack("<Iqq", 2, 2, 3)
    assert body.count(stride) == 1
    patched = binary.frame(body.replace(stride, struct.pack("<Iqq", 2, 2, 4)))
    assert Device().load(patched).run([ROW, ONE]).outputs[0].ravel().tolist() == [1, 5]


ALONE = """
import runpy, sys
try:
    runpy.run_module("opscope.simulator", run_name="__main__")
except SystemExit as end:
    assert not end.code
import opscope.simulator.api
names = {m.split('.')[0] for m in sys.modules}
assert not names & {'jax', 'jaxlib', 'xdsl', 'torch', 'pandas'}, names
ours = {m for m in sys.modules if m.startswith('opscope.compiler.')}
assert not [m for m in ours if not m.startswith('opscope.compiler.target')]
assert not [m for m in sys.modules if m.startswith(('opscope.harness', 'opscope.models', 'opscope.reports'))]
"""


def test_the_file_alone_gives_the_same_bytes_in_a_fresh_process_without_jax_and_passes_of_the_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = RANDOM.standard_normal((40, 50)).astype(ml_dtypes.bfloat16)
    b = RANDOM.standard_normal((50, 30)).astype(ml_dtypes.bfloat16)
    result = run_result("matmul", MatmulParams(), [a, b], (40, 30), "bf16")
    made = one_kernel("matmul", MatmulParams(), [(a.shape, "bf16"), (b.shape, "bf16")], ((40, 30), "bf16"))
    (tmp_path / "p.ttnn").write_bytes(binary.write(made))
    np.savez(tmp_path / "x.npz", a=a, b=b)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ALONE, "p.ttnn", "--inputs", "x.npz", "--outputs", "y.npz", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment)
    assert f'"cycles": {result.profile.total_cycles}' in done.stdout
    with np.load(tmp_path / "y.npz") as archive:
        assert archive["output_0"].tobytes() == result.outputs[0].tobytes()
    (tmp_path / "p.ttnn").write_bytes(b"no binary")
    assert main([str(tmp_path / "p.ttnn"), "--inputs", str(tmp_path / "x.npz")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
