"""Families of ops: one table for `--ops`, records, `opscope ops` and dashboards."""

from __future__ import annotations

from opscope.base.op_families import COMPUTING, DATA_MOVEMENT, FAMILIES, op_family
from opscope.base.tests.each import each


@each(
    ("name", "family"),
    [
        ("stablehlo.add", "eltwise"),
        ("stablehlo.select", "data_movement"),
        ("stablehlo.sort", "data_movement"),
        ("stablehlo.all_reduce", "collective"),
        ("stablehlo.custom_call:Sharding", "custom"),
        ("stablehlo.dot_general", "matmul"),
        ("chlo.digamma", "eltwise"),
        ("chlo.top_k", "data_movement"),
        ("model", "whole_model"),
        ("foo.bar", "other"),
    ],
)
def test_the_family_of_an_op_is_the_one_that_records_store(name: str, family: str) -> None:
    assert op_family(name) == family in FAMILIES


def test_families_are_split_into_moving_and_computing() -> None:
    assert {*COMPUTING, *DATA_MOVEMENT, "whole_model", "piece", "other"} == set(FAMILIES)
    assert len(FAMILIES) == len(set(FAMILIES))
