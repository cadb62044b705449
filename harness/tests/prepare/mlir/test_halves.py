"""f16 is computed alike on a processor for which XLA compiles no conversion of it, as it does for one without F16C."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from opscope.base.digest import words_digest
from opscope.harness.prepare.golden import compile_module

_T = "tensor<6x6xf16>"
_MAIN = f"func.func @main(%a: {_T}, %b: {_T}) -> "
_OPS = {
    "arithmetic": _MAIN + f"{_T} {{ %0 = stablehlo.add %a, %b : {_T}\n return %0 : {_T} }}",
    "a comparison": _MAIN
    + f"""tensor<6x6xi1> {{ %0 = stablehlo.compare LT, %a, %b : ({_T}, {_T}) -> tensor<6x6xi1>
        return %0 : tensor<6x6xi1> }}""",
    "a product": _MAIN
    + f"""{_T} {{ %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({_T}, {_T}) -> {_T}
        return %0 : {_T} }}""",
    "a body": _MAIN
    + f"""tensor<6xf16> {{
        %c = stablehlo.constant dense<0.0> : tensor<f16>
        %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1] : ({_T}, tensor<f16>)
          -> tensor<6xf16>
        return %0 : tensor<6xf16> }}""",
    "an order": _MAIN
    + f"""{_T} {{
        %0 = "stablehlo.sort"(%a) ({{
        ^bb0(%x: tensor<f16>, %y: tensor<f16>):
          %1 = stablehlo.compare LT, %x, %y : (tensor<f16>, tensor<f16>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1> }}) {{dimension = 1 : i64, is_stable = true}} : ({_T}) -> {_T}
        return %0 : {_T} }}""",
    "a move": _MAIN + f"{_T} {{ %0 = stablehlo.transpose %a, dims = [1, 0] : ({_T}) -> {_T}\n return %0 : {_T} }}",
    "an op of chlo": _MAIN + f"{_T} {{ %0 = chlo.erf %a : {_T} -> {_T}\n return %0 : {_T} }}",
}


def convert(source: str, target: str, x: np.ndarray) -> np.ndarray:
    a, b = (f"tensor<{x.size}x{kind}>" for kind in (source, target))
    return compile_module(
        f"func.func @main(%x: {a}) -> {b} {{ %y = stablehlo.convert %x : ({a}) -> {b} \n return %y : {b} }}"
    )([x])[0]


def computed() -> str:
    """A digest of all results on the processor that XLA's flags name; conversions are compared with NumPy's."""
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    wide = convert("f16", "f32", every)
    assert np.array_equal(wide, every.astype(np.float32), equal_nan=True)
    assert (np.signbit(wide) == np.signbit(every)).all()
    steps = np.float32([1, 1 + 2**-11, 1 + 2**-12, 1 - 2**-12, 1 + 2**-11 + 2**-20])
    drawn = np.random.default_rng(0).integers(0, 2**32, 1 << 18, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        between = (wide[:-1] + wide[1:]) / 2
        ends = np.float32([65519.9, 65520, 65536, 2**-25, np.nextafter(np.float32(2**-25), np.float32(1)), 1e-45])
        x = np.concatenate([drawn, between, ends, -ends, *(wide * step for step in steps)])
        expected = x.astype(np.float16)
    narrow = convert("f32", "f16", x)
    assert np.array_equal(narrow, expected, equal_nan=True)
    assert (np.signbit(narrow) == np.signbit(expected))[~np.isnan(x)].all()

    a, b = (np.random.default_rng(seed).standard_normal((6, 6)).astype(np.float16) for seed in (1, 2))
    return words_digest(
        *(
            array.tobytes().hex()
            for text in _OPS.values()
            for wide in (False, True)
            for array in compile_module(text, widen=wide)([a, b])
        ),
        digits=16,
    )


def test_conversions_are_those_of_numpy() -> None:
    assert computed()


@pytest.mark.slow
def test_conversions_and_ops_are_the_same_without_f16c() -> None:
    """On other processors than x86 the flag changes nothing. What they are on this one is the test above."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2", "TF_CPP_MIN_LOG_LEVEL": "3"}
    code = "from opscope.harness.tests.prepare.mlir.test_halves import computed; print(computed())"
    command = [sys.executable, "-P", "-c", code]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout) == (0, f"{computed()}\n"), child.stderr
