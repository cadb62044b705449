"""Shares of a sweep: every op in one of them, of nearly equal cost, and the same ones on every machine."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from opscope.base.tests.each import each
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, TensorDesc
from opscope.harness.scale import costs, shard
from opscope.harness.settings.settings import resolve
from opscope.harness.tests import run_folder


def row(op_id: str, *shapes: tuple[int, ...], name: str = "stablehlo.add", module: str | None = "m") -> OpRow:
    descs = tuple(TensorDesc(shape=shape, data_type="f32") for shape in shapes or ((2, 3), (2, 3), (2, 3)))
    return OpRow(op_id=op_id, op_name=name, module=module, inputs=descs[:-1], outputs=descs[-1:])


@each("of", [1, 2, 3, 7, 40])
def test_every_op_is_in_one_share_and_none_is_much_dearer(of):
    draw = random.Random(of)
    price = {f"{draw.getrandbits(64):016x}": int(draw.lognormvariate(9, 2)) + 1 for _ in range(200)}
    shares = shard.divide(price, of)
    assert sorted(op for ops in shares for op in ops) == sorted(price)
    loads = [sum(price[op] for op in ops) for ops in shares]
    assert max(loads) <= sum(loads) / of + max(price.values())
    shuffled = list(price.items())
    draw.shuffle(shuffled)
    assert shard.divide(dict(shuffled), of) == shares


@pytest.mark.slow
def test_jobs_agree_although_hashes_of_strings_differ():
    program = (
        "from opscope.harness.scale import shard; import random; d = random.Random(5);"
        "print(shard.divide({f'{d.getrandbits(64):x}': d.randrange(9) for _ in range(99)}, 4))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_a_product_costs_more_than_its_operands():
    small, large = row("a", (64, 64), (64, 64), (64, 64)), row("b", (4096, 4096), (4096, 4096), (4096, 4096))
    assert costs.expected(small) < 13_000
    assert costs.expected(large) < 1_000_000
    product = large.model_copy(update={"op_name": "stablehlo.dot_general"})
    assert costs.expected(product) - costs.expected(large) == pytest.approx(0.00007 * 4096**3, rel=0.01)


def test_unmeasured_ops_get_the_measured_speed():
    rows = [row("a"), row("b"), row("c", (1000, 1000), (1000, 1000), (1000, 1000))]
    seconds = costs.of_rows(rows, {"a": 2 * costs.expected(rows[0]) / 1e6, "gone": 3.0})
    assert seconds == {
        "a": 2 * costs.expected(rows[0]),
        "b": 2 * costs.expected(rows[1]),
        "c": 2 * costs.expected(rows[2]),
    }


def test_a_share_knows_its_ops_and_the_division(tmp_path):
    rows = [row(f"{n:016x}") for n in range(10)] + [row("unsplittable", module=None)]
    shares = [shard.share(rows, f"{index}/3") for index in (1, 2, 3)]
    assert sorted(op for one in shares for op in one.ops) == [row.op_id for row in rows[:-1]]
    assert len({one.division for one in shares}) == 1
    assert shard.share(rows, "1/3", {rows[4].op_id: 9.0, rows[5].op_id: 1.0}).division != shares[0].division
    assert sum(one.seconds for one in shares) == pytest.approx(shares[0].all_seconds)
    shard.write(tmp_path, shares[1])
    assert shard.read(tmp_path) == shares[1]
    assert shard.read(tmp_path / "elsewhere") is None
    (tmp_path / shard.SHARD_FILE).write_text('{"index": 1}')
    with pytest.raises(InputError, match="expected a share of a sweep"):
        shard.read(tmp_path)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("5/4", "--shard: expected a share from 1/4 to 4/4, got '5/4'; try 4/4"),
        ("0/4", "--shard: expected a share from 1/4 to 4/4, got '0/4'; try 1/4"),
        ("1/0", "--shard: expected I/N with N from 1 to 10000, got '1/0'; try 1/4"),
        ("-1/4", "--shard: expected I/N with N from 1 to 10000, got '-1/4'; try 1/4"),
        ("half", "--shard: expected I/N with N from 1 to 10000, got 'half'; try 1/4"),
    ],
)
def test_a_share_that_does_not_exist(asked, line, tmp_path):
    with pytest.raises(InputError) as caught:
        resolve({"shard": asked}, tmp_path, {})
    assert str(caught.value) == line


def test_costs_come_from_a_run_or_a_file(tmp_path):
    run = run_folder.write(tmp_path / "run")
    (tmp_path / "costs.json").write_text(costs.text(costs.read(run)))
    assert costs.read(tmp_path / "costs.json") == costs.read(run) == {"aaaa000000000001": 2.0}
    with pytest.raises(InputError, match="no regular file"):
        costs.read(tmp_path.joinpath("/dev/zero"))
    for text in ("", "[]", "{}", '{"opscope_costs": 1}', '{"opscope_costs": 1, "seconds": {"a": "b"}}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match="expected a file of costs"):
            costs.read(tmp_path / "bad.json")
    (tmp_path / "new.json").write_text(json.dumps({"opscope_costs": 2}))
    with pytest.raises(InputError, match="expected costs of version 1, got version 2"):
        costs.read(tmp_path / "new.json")
    with pytest.raises(InputError, match="No such file"):
        costs.read(tmp_path / "none.json")
