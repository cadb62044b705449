"""A folder of modules that overfill, nest, call and loop beyond reason: each is a row, within the limits of a run."""

from __future__ import annotations

import pytest

from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place

pytestmark = pytest.mark.slow

T = "tensor<4xf32>"


def main(body: str, result: str = "%0", type_: str = T) -> str:
    return f"func.func @main(%x: {type_}) -> {type_} {{\n{body}\n  return {result} : {type_} }}\n"


def called(name: str, *callees: str) -> str:
    lines = [f"  %{n} = func.call @{callee}(%x) : ({T}) -> {T}" for n, callee in enumerate(callees)]
    return f"func.func private @{name}(%x: {T}) -> {T} {{\n" + "\n".join(lines) + f"\n  return %0 : {T} }}\n"


def nested(depth: int) -> str:
    inner = f"stablehlo.return %x : {T}"
    for _ in range(depth):
        inner = f'%y = "stablehlo.if"(%p) ({{ {inner} }}, {{ stablehlo.return %x : {T} }}) : (tensor<i1>) -> {T}\n'
        inner += f"stablehlo.return %y : {T}"
    whole = inner.rpartition("\n")[0]
    return main(f"  %p = stablehlo.constant dense<true> : tensor<i1>\n{whole}", "%y")


HOSTILE = {
    "nested": (nested(3000), "prepare_failed"),
    "doubled": (
        main(f"  %0 = func.call @f0(%x) : ({T}) -> {T}")
        + "".join(called(f"f{n}", f"f{n + 1}", f"f{n + 1}") for n in range(40))
        + f"func.func private @f40(%x: {T}) -> {T} {{ return %x : {T} }}",
        "prepare_failed",
    ),
    "cyclic": (main(f"  %0 = func.call @a(%x) : ({T}) -> {T}") + called("a", "b") + called("b", "a"), "none"),
    "endless": (
        main(
            f"""  %0 = stablehlo.while(%i = %x) : {T}
    cond {{ %p = stablehlo.constant dense<true> : tensor<i1>
           stablehlo.return %p : tensor<i1> }}
    do {{ stablehlo.return %i : {T} }}"""
        ),
        "timeout",
    ),
    "huge": (
        main(
            "  %c = stablehlo.constant dense<1.0> : tensor<1048576x1048576xf32>\n"
            "  %0 = stablehlo.add %x, %c : tensor<1048576x1048576xf32>",
            type_="tensor<1048576x1048576xf32>",
        ),
        "compile_failed",
    ),
    "written": (
        main(
            f'  %c = stablehlo.constant dense<"0x{"0000803F" * 4_000_000}"> : tensor<4000000xf32>\n'
            "  %0 = stablehlo.add %c, %x : tensor<4000000xf32>",
            type_="tensor<4000000xf32>",
        ),
        "success",
    ),
    "dims": (
        main(
            f"  %c = stablehlo.constant dense<2.0> : tensor<{'1x' * 300}f32>\n"
            f"  %0 = stablehlo.add %x, %c : tensor<{'1x' * 300}f32>",
            type_=f"tensor<{'1x' * 300}f32>",
        ),
        "no_golden",
    ),
    "overflowing": (f"func.func @main(%x: tensor<4611686018427387904x8xf32>) -> {T} {{ }}", "export_failed"),
    "large": (
        main(
            "  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]\n"
            "    : (tensor<24000x24000xf32>, tensor<24000x24000xf32>) -> tensor<24000x24000xf32>",
            type_="tensor<24000x24000xf32>",
        ),
        "skipped",
    ),
    "odd \x1b[31m'\"$(x);\n name": (main(f'  %0 = stablehlo.add %x, %x : {T} loc("\\1B[2J../../etc")'), "success"),
}
"""Name -> the module, and how its model or its only judged op ends; `none` where no op can be split from it."""


def test_ten_hostile_modules_are_rows_and_cost_a_good_one_nothing(place: Place) -> None:
    folder = place.folder / "models"
    folder.mkdir()
    good = main(f"  %1 = stablehlo.multiply %x, %x : {T}\n  %0 = stablehlo.subtract %1, %x : {T}")
    for name, text in {"good": good, **{name: text for name, (text, _) in HOSTILE.items()}}.items():
        (folder / f"{name}.mlir").write_text(text)
    run = place.folder / "run"
    limits = ("--prepare-timeout", "30", "--op-timeout", "10", "--reruns", "0", "-n", "2", "--budget", "4m")
    done = place.run(
        *("pytest", "--model", "models/*.mlir", "--op-by-op", "--no-report", *limits, "--run-dir", str(run)),
        OPSCOPE_CACHE_DIR=str(place.folder / "cache"),
    )
    assert done.code == 1, done.out + done.err
    assert "\x1b[2J" not in done.out + done.err
    stored = store.load_run(run)
    ended = {failure.model: failure.status.value for failure in stored.header.failed}
    status = {test.op_id: test.status.value for test in stored.tests}
    rows = {use.model: status[row.op_id] for row in stored.rows if row.module is not None for use in row.uses}
    found = {
        model.partition(" ")[0]: ended.get(model) or rows.get(model, "none")
        for model in {*ended, *stored.header.models}
    }
    assert found == {"good": "success"} | {name.partition(" ")[0]: ending for name, (_, ending) in HOSTILE.items()}
