"""Ops of language models' inference, by tt-xla's custom calls: held to their definitions in NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.target import binary
from opscope.compiler.target.in_place import writes_in_place
from opscope.compiler.tests import programs
from opscope.simulator.api import Device

RANDOM = np.random.default_rng(3)
POSITIONS, WIDTH = 64, 32
CACHE, BLOCKS = (RANDOM.normal(size=(n, 2, POSITIONS // m, WIDTH)).astype(np.float32) for n, m in ((2, 1), (9, 4)))
ONE, SOME = (RANDOM.normal(size=(2, 2, n, WIDTH)).astype(np.float32) for n in (1, 21))
QUERY = RANDOM.normal(size=(1, 2, 6, WIDTH)).astype(np.float32)
TABLE = np.array([[7, 2, 0, 5], [1, 8, 3, 6]], np.int32)
PLACES = np.array([37, 5], np.int32)
MASK = np.where(RANDOM.random((2, 1, 6, POSITIONS)) < 0.5, 0, -1e9).astype(np.float32)


def put(cache: np.ndarray, index: Any, value: np.ndarray) -> np.ndarray:
    result = cache.copy()
    result[index] = value
    return result


def pages(blocks: np.ndarray, table: np.ndarray) -> np.ndarray:
    return blocks[table].swapaxes(1, 2).reshape(2, 2, POSITIONS, WIDTH)


def attend(query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | float) -> np.ndarray:
    """(batch, heads, positions, width); the heads share keys and values."""
    shared = query.shape[1] // key.shape[1]
    key, value = (np.repeat(x.astype(np.float64), shared, axis=1) for x in (key, value))
    scores = query @ key.swapaxes(2, 3) * WIDTH**-0.5 + mask
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True) @ value


def decode(query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return attend(query[0][:, :, np.newaxis], key, value, mask)[:, :, 0][np.newaxis]


def until(places: np.ndarray) -> np.ndarray:
    return np.where(np.arange(POSITIONS) <= places[:, None], 0, -np.inf)[:, None, None]


def paged_update(blocks: np.ndarray, new: np.ndarray, places: np.ndarray, table: np.ndarray) -> np.ndarray:
    for user in range(2):
        block = table[user, places[user] // 16]
        blocks = put(blocks, np.s_[block, :, places[user] % 16], new[0, user, :2])
    return blocks


def paged_fill(blocks: np.ndarray, new: np.ndarray, table: np.ndarray, users: Sequence[int] = (0, 1)) -> np.ndarray:
    for row, user in enumerate(users):
        blocks = put(put(blocks, table[user, 0], new[row, :, :16]), np.s_[table[user, 1], :, :5], new[row, :, 16:])
    return blocks


def paged(query: np.ndarray, key: np.ndarray, value: np.ndarray, table: np.ndarray, places: np.ndarray) -> np.ndarray:
    return decode(query, pages(key, table), pages(value, table), until(places))


CAUSAL = {"is_causal": "True", "has_attention_mask": "False"}
CASES: dict[str, tuple[str, Callable[..., np.ndarray], list[np.ndarray], dict[str, str]]] = {
    "update_cache": (
        "update_cache",
        lambda c, x, i: put(c, np.s_[:, :, i[0]], x[:, :, 0]),
        [CACHE, ONE, PLACES[:1]],
        {},
    ),
    "update_cache past the end": ("update_cache", lambda c, x, i: c, [CACHE, ONE, np.array([64], np.int32)], {}),
    "fill_cache": ("fill_cache", lambda c, x: put(c, np.s_[:, :, :21], x), [CACHE, SOME], {}),
    "fill_cache of one batch": (
        "fill_cache",
        lambda c, x: put(c, np.s_[1:, :, :21], x),
        [CACHE, SOME[:1]],
        {"batch_offset": "1"},
    ),
    "paged_update_cache": (
        "paged_update_cache",
        paged_update,
        [BLOCKS, np.tile(ONE.reshape(1, 2, 2, WIDTH), (1, 1, 2, 1)), PLACES, TABLE],
        {},
    ),
    "paged_fill_cache": ("paged_fill_cache", paged_fill, [BLOCKS, SOME, TABLE], {}),
    "paged_fill_cache of users": (
        "paged_fill_cache",
        paged_fill,
        [BLOCKS, SOME, TABLE, np.array([1, 0], np.int32)],
        {},
    ),
    "attention of one position": (
        "scaled_dot_product_attention_decode",
        lambda q, k, v, p: decode(q, k, v, until(p)),
        [QUERY, CACHE, CACHE[::-1], PLACES],
        CAUSAL,
    ),
    "attention of one position by a mask": (
        "scaled_dot_product_attention_decode",
        lambda q, k, v, p, m: decode(q, k, v, m.swapaxes(1, 2)),
        [QUERY, CACHE, CACHE[::-1], PLACES, MASK],
        {"is_causal": "False", "has_attention_mask": "True"},
    ),
    "attention over pages": (
        "paged_scaled_dot_product_attention_decode",
        paged,
        [QUERY, BLOCKS, BLOCKS[::-1], TABLE, PLACES],
        CAUSAL | {"has_cur_pos_tensor": "True"},
    ),
    "heads that share keys": (
        "scaled_dot_product_attention",
        lambda q, k, v: attend(q, k, v, 0.0),
        [np.tile(SOME, (1, 2, 1, 1)) * 0.3, CACHE, CACHE[::-1]],
        {"is_causal": "False"},
    ),
    "cumsum": ("cumsum", lambda x: np.cumsum(x, 2), [CACHE], {"dim": "2"}),
    "cumprod": ("cumprod", lambda x: np.cumprod(x, 3), [CACHE], {"dim": "3"}),
}
"""Case -> op, its definition, arguments and attributes."""


def kind(value: np.ndarray) -> str:
    return f"tensor<{'x'.join(map(str, value.shape))}x{'i32' if value.dtype == np.int32 else 'f32'}>"


def called(op: str, arguments: list[np.ndarray], result: np.ndarray, attributes: dict[str, str]) -> str:
    kinds = [kind(value) for value in arguments]
    names = ", ".join(f"%{i}" for i in range(len(kinds)))
    words = ", ".join(f'{key} = "{word}"' for key, word in attributes.items())
    call = f"stablehlo.custom_call @tt.{op}({names}) {{mhlo.frontend_attributes = {{{words}}}}}"
    signature = ", ".join(f"%{i}: {each}" for i, each in enumerate(kinds))
    return (
        f"func.func @main({signature}) -> {kind(result)} {{\n"
        f"  %r = {call} : ({', '.join(kinds)}) -> {kind(result)}\n  return %r : {kind(result)}\n}}"
    )


@pytest.mark.parametrize("case", CASES)
def test_an_op_computes_its_definition(case: str) -> None:
    op, definition, arguments, attributes = CASES[case]
    wanted = definition(*arguments)
    (got,) = programs.simulate(called(op, arguments, wanted, attributes), *arguments)
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3)


def test_a_cache_that_nothing_else_reads_is_written_in_its_place() -> None:
    op, definition, arguments, _ = CASES["update_cache"]
    source = called(op, arguments, arguments[0], {})
    kept = source.replace("return %r", "%k = stablehlo.add %r, %0 : " + kind(CACHE) + "\n  return %k")
    costs = []
    for text, expected in ((source, True), (kept, False)):
        data = api.compile(text, programs.BOARD)
        program = binary.read(data).programs[0]
        (write,) = [each for each in program.operations if each.kernel == "update_cache"]
        assert writes_in_place(write, program) is expected
        result = Device("n150").load(data).run(arguments)
        costs.append(next(cost for cost in result.profile.ops if cost.kernel == "update_cache"))
        wanted = definition(*arguments)
        np.testing.assert_allclose(result.outputs[0], wanted if expected else wanted + CACHE, rtol=1e-6)
    assert costs[0].dram_bytes < costs[1].dram_bytes


def test_what_does_not_fit_into_a_cache_is_refused() -> None:
    wrong = [CACHE, RANDOM.normal(size=(2, 2, 65, WIDTH)).astype(np.float32)]
    with pytest.raises(Exception, match="fits into the cache"):
        api.compile(called("fill_cache", wrong, CACHE, {}), programs.BOARD)
    arguments = [QUERY, BLOCKS, BLOCKS, TABLE, PLACES]
    with pytest.raises(StageFailure, match="positions and no mask after the page table"):
        api.compile(called("paged_scaled_dot_product_attention_decode", arguments[:4], QUERY, CAUSAL), programs.BOARD)
