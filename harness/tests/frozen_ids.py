"""The corpus of frozen (module, id) pairs: `python -m opscope.harness.tests.frozen_ids --update` writes it anew.

A pair is kept as `<id>.mlirbc` in data/frozen_ids.zip, without source locations. Written again only when
`opscope.harness.prepare.identity.VERSION` changes: any other difference means that yesterday's results are no longer
found.
"""

from __future__ import annotations

import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.prepare.split import split_module
from opscope.harness.tests.split_cases import CUSTOM_CALLS, RUNNABLE, SHAPED

ARCHIVE = Path(__file__).parent / "data" / "frozen_ids.zip"
COUNT = 200


def pairs() -> dict[str, bytes]:
    """Id -> single-op module, as stored."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {Path(name).stem: archive.read(name) for name in archive.namelist()}


def jax_programs() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Small JAX functions and their arguments' shapes, chosen so that most kinds of op come up."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def s(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    f, m, i = s(4, 8), s(8, 8), s(4, 8, dtype=jnp.int32)
    unary = (jnp.abs, jnp.exp, jnp.log, jnp.tanh, jnp.sqrt, jnp.sign, jnp.floor, jnp.ceil, jnp.cos, jnp.sin)
    unary += (jnp.expm1, jnp.log1p, jnp.cbrt, jnp.round, jnp.isfinite, lax.rsqrt, lax.logistic, lax.erf, lax.erf_inv)
    for function in (*unary, jnp.sinh, jnp.arcsin, jnp.arccosh, lax.lgamma, lax.digamma):
        yield function, (f,)
    for dtype in (jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint8, jnp.int16, jnp.uint32, jnp.complex64):
        yield (lambda x, y: (x + y, x * y, x - y)), (s(4, 8, dtype=dtype), s(4, 8, dtype=dtype))
    yield (lambda x: (x + 1, x * 2.5, jnp.maximum(x, 0), jnp.maximum(x, 1), x / 3, x**2, -x, 1 / x)), (f,)
    yield (lambda x, y: (x & y, x | y, x ^ y, ~x, x << 2, x >> 1, x // 3, x % 5, x == y, x < y)), (i, i)
    yield (lambda x: (x.astype(jnp.bfloat16), x.astype(jnp.int32), x > 0, lax.bitcast_convert_type(x, jnp.int32))), (f,)
    yield (lambda x, w: (x @ w, lax.dot(x, w, precision="highest"), x.T @ x, jnp.einsum("ij,kj->ik", x, w))), (f, m)
    yield (lambda x, y: jnp.einsum("bij,bjk->bik", x, y)), (s(2, 3, 4), s(2, 4, 5))
    for strides, padding, groups, dilation in (
        ((1, 1), "SAME", 1, (1, 1)),
        ((2, 2), "SAME", 1, (1, 1)),
        ((1, 1), "VALID", 1, (2, 2)),
        ((2, 1), [(1, 0), (0, 2)], 4, (1, 1)),
    ):
        yield (
            lambda x, w, a=strides, b=padding, c=groups, d=dilation: lax.conv_general_dilated(
                x, w, a, b, rhs_dilation=d, feature_group_count=c, dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            (s(1, 9, 9, 4), s(3, 3, 4 // groups, 8)),
        )
    yield (
        (lambda x: (x.sum(0), x.max(1), x.min(), x.prod(1), x.mean(0), x.argmax(1), (x > 0).any(), (x > 0).all(1))),
        (f,),
    )
    yield (lambda x: (jnp.cumsum(x, 1), jnp.sort(x), jnp.argsort(x, 0), jnp.flip(x, 1), lax.top_k(x, 3))), (f,)
    for dims, strides in (((1, 2, 2, 1), (1, 2, 2, 1)), ((1, 3, 3, 1), (1, 2, 2, 1)), ((1, 3, 3, 1), (1, 1, 1, 1))):
        yield (lambda x, d=dims, t=strides: lax.reduce_window(x, -jnp.inf, lax.max, d, t, "SAME")), (s(1, 8, 8, 2),)
        yield (lambda x, d=dims, t=strides: lax.reduce_window(x, 0.0, lax.add, d, t, "VALID")), (s(1, 8, 8, 2),)
        yield (
            jax.grad(lambda x, d=dims, t=strides: lax.reduce_window(x, -jnp.inf, lax.max, d, t, "SAME").sum()),
            (s(1, 8, 8, 2),),
        )
    yield (lambda x: (x.reshape(2, 16), x.T, x[1:3, ::2], jnp.pad(x, 1), jnp.concatenate([x, x], 1), x[:, None])), (f,)
    yield (lambda x, k: (jnp.take(x, k, axis=0), x[k], x.at[k].set(1.0), x.at[k].add(2.0))), (f, s(3, dtype=jnp.int32))
    yield (
        (lambda x, k: (lax.dynamic_slice(x, (k, 0), (2, 8)), lax.dynamic_update_slice(x, x[:2], (k, 0)))),
        (f, s(dtype=jnp.int32)),
    )
    yield (lambda x: (jnp.clip(x, 0, 6), jnp.where(x > 0, x, 0.1 * x), jax.nn.softmax(x), jax.nn.gelu(x))), (f,)
    yield (lambda x: (jax.nn.gelu(x, approximate=False), jax.nn.silu(x), jax.nn.softplus(x), jnp.var(x, 1))), (f,)
    yield (lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x), jnp.abs(jnp.fft.fft(x)), jnp.conj(jnp.fft.fft(x)))), (f,)
    yield (lambda x: (jnp.linalg.cholesky(x), lax.linalg.triangular_solve(x, x, lower=True), jnp.tril(x))), (m,)
    yield (lambda: (jnp.arange(8), jnp.ones((2, 3)), jnp.eye(3), jnp.linspace(0, 1, 5), lax.iota(jnp.int32, 7))), ()
    yield (lambda k: jax.random.normal(k, (4,))), (s(2, dtype=jnp.uint32),)
    yield (lambda k: lax.rng_bit_generator(k, (3, 5))), (s(4, dtype=jnp.uint32),)
    yield (lambda x: lax.fori_loop(0, 5, lambda n, a: a * x + n, x)), (f,)
    yield (lambda x: lax.scan(lambda c, r: (c + r, c.sum()), x[0], x)), (f,)
    yield (lambda p, x: lax.cond(p, lambda a: a + 1, lambda a: a * a, x)), (s(dtype=jnp.bool_), f)
    yield (lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, jnp.tanh], x)), (s(dtype=jnp.int32), f)
    yield lax.composite(lambda x: x * jax.nn.sigmoid(x), name="own.swish", version=3), (f,)
    yield (lambda x: lax.optimization_barrier((x, x + 1))), (f,)
    yield (lambda x: lax.reduce_precision(x, 5, 10)), (f,)
    yield jax.grad(lambda x: jnp.sum(jax.nn.log_softmax(x) ** 2)), (f,)


def generate() -> dict[str, bytes]:
    """COUNT pairs: hand-written modules first, then as many of JAX's as it takes."""
    import jax

    modules = [load(text) for text in (*RUNNABLE.values(), SHAPED, CUSTOM_CALLS)]
    for function, arguments in jax_programs():
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        modules.append(load(str(lowered.compiler_ir("stablehlo"))))  # as text: without the paths of this machine
    module_of_id: dict[str, bytes] = {}
    rank: dict[str, int] = {}
    names: Counter[str] = Counter()
    for module in modules:
        for op in split_module(module).ops.values():
            if not op.unsplittable and op.op_id not in module_of_id:
                module_of_id[op.op_id] = to_bytecode(load(str(load(op.bytecode))))
                rank[op.op_id] = names[op.op_name]
                names[op.op_name] += 1
    if len(module_of_id) < COUNT:
        raise SystemExit(f"frozen ids: expected {COUNT} unique ops, got {len(module_of_id)}; try adding programs")
    chosen = sorted(module_of_id, key=rank.__getitem__)[:COUNT]  # the first of each kind, the second of each, ...
    return {op_id: module_of_id[op_id] for op_id in chosen}


def main() -> None:
    """Writes the archive."""
    if sys.argv[1:] != ["--update"]:
        raise SystemExit("frozen ids: expected --update; it replaces every frozen id")
    ARCHIVE.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_LZMA) as archive:
        for op_id, bytecode in generate().items():
            archive.writestr(zipfile.ZipInfo(f"{op_id}.mlirbc"), bytecode, zipfile.ZIP_LZMA)
    print(f"{ARCHIVE}: {COUNT} pairs, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
