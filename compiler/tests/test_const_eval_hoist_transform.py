"""What is the same in every run is computed once, again for other parameters, and never wrongly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.functions import functions
from opscope.compiler.pipelines.pipeline import parse, run
from opscope.compiler.tests import programs
from opscope.compiler.tests.test_optimization_levels import case
from opscope.simulator.api import Device

X, W, S = programs.random((32, 32)), programs.random((32, 32), 1), programs.random((32,), 2)
TYPES = ("input", "parameter", "parameter")


def scaled(x, w, s):
    return x @ (w * jnp.exp(s)) + jnp.arange(32.0)


def compiled(function, types: tuple[str, ...], *args: np.ndarray, level: int = 1):
    options = api.CompileOptions(optimization_level=level, argument_types=types)
    module = api.ttir_to_ttnn(api.stablehlo_to_ttir(programs.stablehlo(function, *args)), programs.BOARD, options)
    return module, Device("n150").load(api.ttnn_to_flatbuffer(module, programs.BOARD, options))


def test_parameters_are_worked_on_once() -> None:
    module, executable = compiled(scaled, TYPES, X, W, S)
    entry = programs.op_names(next(iter(module.body.block.ops)))
    assert "ttcore.load_cached" in entry
    assert not {"ttnn.multiply", "ttnn.exp", "ttnn.arange"} & set(entry)
    first, second = executable.run([X, W, S]), executable.run([X + 1, W, S])
    assert sum(op.cycles for op in first.profile.once) > 0
    assert not second.profile.once
    assert first.profile.total_cycles == second.profile.total_cycles
    for result, x in ((first, X), (second, X + 1)):
        np.testing.assert_allclose(result.outputs[0], scaled(x, W, S), rtol=2e-2, atol=6e-2)


def test_other_parameters_are_worked_on_again_even_in_the_same_array() -> None:
    _, executable = compiled(scaled, TYPES, X, W, S)
    weights = W.copy()
    executable.run([X, weights, S])
    weights *= 3
    again = executable.run([X, weights, S])
    assert sum(op.cycles for op in again.profile.once) > 0
    np.testing.assert_allclose(again.outputs[0], scaled(X, weights, S), rtol=2e-2, atol=1e-1)


def test_a_second_time_finds_nothing() -> None:
    module = api.stablehlo_to_ttir(programs.stablehlo(scaled, X, W, S))
    passes = 'tt-populate-argument-types{argument-types="main=input,parameter,parameter"},const-eval-hoist-transform'
    run(parse(passes), module)
    before = str(module)
    run(parse("const-eval-hoist-transform"), module)
    assert str(module) == before


def shared(x, p, q):
    e = jnp.exp(p)
    return x * e, x + e * q


PARTS = {
    "two of them": (lambda x, p, q: x * jnp.exp(p) + jnp.tanh(q), ["exp", "tanh"]),
    "joined by an op": (lambda x, p, q: x * (jnp.exp(p) + jnp.tanh(q)), ["exp tanh add"]),
    "read inside and outside": (shared, ["exp multiply"]),
    "a number of its own in each": (lambda x, p, q: x * (p + 2.5) + q * 2.5, ["full add", "full multiply"]),
    "a number that the rest reads too": (lambda x, p, q: x * 2.5 + p * 2.5, ["full", "full multiply"]),
    "constants alone": (lambda x, p, q: x * jnp.arange(32.0), ["arange"]),
    "returned": (lambda x, p, q: (x + q, jnp.exp(p)), ["exp"]),
    "nothing to compute": (lambda x, p, q: x + p, []),
    "nothing else": (lambda x, p, q: p * q, []),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_hangs_together_is_a_function(name: str) -> None:
    function, parts = PARTS[name]
    module = api.stablehlo_to_ttir(programs.stablehlo(function, X[0], X[1], X[2]))
    types = 'tt-populate-argument-types{argument-types="main=input,parameter,parameter"}'
    run(parse(f"{types},ttir-implicit-broadcast-fold,const-eval-hoist-transform"), module)
    module.verify()
    main, *hoisted = functions(module)
    names = [" ".join(op.removeprefix("ttir.") for op in programs.op_names(func)) for func in hoisted]
    assert names == parts
    assert programs.op_names(main).count("ttcore.load_cached") == len(parts)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("main=input,parameter", "expected 3 of @main, got 2"),
        ("other=input", "expected FUNCTION=TYPE,..., got 'other=input'; try main="),
        ("main=input,weight,input", "expected input, parameter, constant, got 'weight'"),
    ],
)
def test_types_that_do_not_fit_are_refused(words: str, expected: str) -> None:
    module = api.stablehlo_to_ttir(programs.stablehlo(scaled, X, W, S))
    with pytest.raises(CompilerInputError, match=expected):
        run(parse(f'tt-populate-argument-types{{argument-types="{words}"}}'), module)


@pytest.mark.parametrize("types", [(), ("input", *["parameter"] * 5)])
def test_a_batch_norm_becomes_weights_where_these_stay(types: tuple[str, ...]) -> None:
    """Convolution, batch norm, ReLU: one kernel, or with weights that may change several."""
    source, args = case("convnet")
    options = api.CompileOptions(optimization_level=1, argument_types=types)
    data = api.compile(source, programs.BOARD, options)
    executable = Device("n150").load(data)
    kernels = [op.kernel for op in executable.program.operations]
    assert ("multiply" in kernels) is not bool(types)
    (got,) = executable.run(args).outputs
    (plain,) = programs.simulate(source, *args)
    assert np.linalg.norm(got - plain) <= 2e-3 * np.linalg.norm(plain)


@pytest.mark.parametrize(
    ("shape", "once"), [((64,), ["reshape", "multiply", "reshape", "neg"]), ((1, 1, 1, 64), ["multiply", "neg"])]
)
def test_numbers_per_channel_become_weights_and_a_bias(shape: tuple[int, ...], once: list[str]) -> None:
    def function(x, w, s, m):
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims) * s - m

    shapes = ((1, 8, 8, 32), (3, 3, 32, 64), shape, shape)
    args = [programs.random(s, i, low=0.1, high=0.5) for i, s in enumerate(shapes)]
    ttir = api.stablehlo_to_ttir(programs.stablehlo(function, *args))
    types = 'tt-populate-argument-types{argument-types="main=input,parameter,parameter,parameter"}'
    run(parse(f"{types},ttir-implicit-broadcast-fold,ttir-fusing"), ttir)
    assert programs.op_names(ttir) == [f"ttir.{name}" for name in (*once, "conv2d")]
    module, executable = compiled(function, ("input", *["parameter"] * 3), *args)
    main, *hoisted = functions(module)
    names = [name for func in hoisted for name in programs.op_names(func) if name != "ttnn.deallocate"]
    assert [name.removeprefix("ttnn.") for name in names] == once
    assert not {"ttnn.multiply", "ttnn.subtract"} & set(programs.op_names(main))
    (got,) = executable.run(args).outputs
    golden = function(*args)
    assert np.linalg.norm(got - golden) <= 3e-3 * np.linalg.norm(golden)


@pytest.mark.parametrize(
    ("shape", "types", "op"),
    [
        ((8, 8, 1), ("input", "parameter", "parameter"), "multiply"),  # a number per pixel
        ((8, 8, 64), ("input", "parameter", "parameter"), "subtract"),
        ((64,), ("input", "parameter", "input"), "multiply"),  # another one in every run
        ((64,), ("input", "parameter", "input"), "subtract"),
        ((64,), ("input", "input", "parameter"), "multiply"),
        ((1,), ("input", "parameter", "parameter"), "subtract"),  # no bias yet, and one number would not make one
    ],
)
def test_what_is_no_number_per_channel_or_may_change_stays(
    shape: tuple[int, ...], types: tuple[str, ...], op: str
) -> None:
    def function(x, w, s):
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)
        return y * s if op == "multiply" else y - s

    args = [np.ones(s, np.float32) for s in ((1, 8, 8, 32), (3, 3, 32, 64), shape)]
    ttir = api.stablehlo_to_ttir(programs.stablehlo(function, *args))
    words = f'tt-populate-argument-types{{argument-types="main={",".join(types)}"}}'
    run(parse(f"{words},ttir-implicit-broadcast-fold,ttir-fusing"), ttir)
    names = [name.removeprefix("ttir.") for name in programs.op_names(ttir)]
    assert [name for name in names if name != "reshape"] == ["conv2d", op]


def pytorch(x, w, b, m, v, u):
    """Two convolutions, each with a batch norm and the second with a residual, channels first throughout."""

    def normal(y):
        m_, v_, b_ = (a.reshape(1, -1, 1, 1) for a in (m, v, b))
        return (y - m_) * jax.lax.rsqrt(v_ + 1e-5) * b_ + m_

    y = jax.nn.relu(normal(jax.lax.conv(x, w, (1, 1), "SAME")))
    return jax.nn.relu(normal(jax.lax.conv(y, u, (1, 1), "SAME")) + 1.0 * y)


def test_channels_may_come_first() -> None:
    """All between the first move and the last is channels last, weights come in their order from the host."""
    shapes = ((1, 16, 8, 8), (32, 16, 3, 3), (32,), (32,), (32,), (32, 32, 1, 1))
    args = [programs.random(s, i, low=0.1, high=0.5) for i, s in enumerate(shapes)]
    module, executable = compiled(pytorch, ("input", *["parameter"] * 5), *args)
    names = [name.partition(".")[2] for name in programs.op_names(next(iter(module.body.block.ops)))]
    between = names[names.index("permute") :]
    computed = [name for name in between if name not in ("deallocate", "to_layout", "to_device", "load_cached")]
    assert computed == ["permute", "conv2d", "conv2d", "add", "relu", "permute", "from_device"]
    assert names.count("prepare_conv2d_weights") == 2
    assert "ttnn.permute" not in [name for func in list(module.body.block.ops)[1:] for name in programs.op_names(func)]
    (got,) = executable.run(args).outputs
    (golden,) = programs.xla(programs.stablehlo(pytorch, *args), *args)
    assert np.linalg.norm(got - golden) <= 3e-3 * np.linalg.norm(golden)


def test_weights_with_other_readers_are_permuted_on_the_device() -> None:
    def shared(x, w):
        return jax.lax.conv(x, w, (1, 1), "SAME"), w.transpose(2, 3, 1, 0)

    module, _ = compiled(
        shared, ("input", "parameter"), programs.random((1, 16, 8, 8)), programs.random((32, 16, 3, 3))
    )
    assert "ttnn.prepare_conv2d_weights" not in programs.op_names(module)


def test_random_bits_are_made_in_every_run() -> None:
    def noisy(x, key):
        return x + jax.lax.rng_bit_generator(key, (32,), dtype=jnp.uint32)[1].astype(jnp.float32)

    module, _ = compiled(noisy, ("input", "parameter"), programs.random((32,)), np.arange(4, dtype=np.uint32))
    assert "ttnn.rng_bit_generator" in programs.op_names(next(iter(module.body.block.ops)))
