"""What padding and unpadding on an op's edges ask of its share: more than is cut off or added, and whole pieces."""

from __future__ import annotations

import pytest

from opscope.compiler.buda.balancer.padding import padding_fits
from opscope.compiler.buda.balancer.shapes import BlockShape, UBlock
from opscope.compiler.buda.balancer.tests import graphs


@pytest.mark.parametrize(
    ("rows", "columns", "fits"), [(3, 2, True), (2, 2, False), (3, 1, False), (8, 1, False), (2, 8, False)]
)
def test_a_core_has_more_rows_and_columns_than_are_padded(rows: int, columns: int, fits: bool) -> None:
    """Two rows and a column, cut off for a user or added to an operand, after another TM or not."""
    block = BlockShape(1, rows, columns, UBlock(1, 1))
    for before in ("", "hslice(1);"):
        cut, added = graphs.then_unary(8, 8, f"{before}buda_unpad(2, 1)"), graphs.unary(8, 8, into="buda_pad(2, 1)")
        assert padding_fits(cut, cut.node("first"), block) is fits
        assert padding_fits(cut, cut.node("second"), block)
        assert padding_fits(added, added.node("op"), block) is fits


@pytest.mark.parametrize(
    ("into", "fits"),
    [
        ("vstack(4);buda_pad(2, 0)", True),
        ("vstack(4);buda_pad(4, 0)", True),
        ("vstack(4);buda_pad(1, 0)", False),
        ("vstack(4);buda_pad(3, 0)", False),
        ("vstack(4);buda_pad(2, 3)", True),  # columns are not stacked
        ("hstack(4);buda_pad(0, 3)", True),
        ("hstack(4);buda_pad(2, 4)", False),
        ("hstack(4);buda_pad(1, 6)", True),
        ("vslice(2);vstack(8);buda_pad(1, 0)", True),  # pieces of one row
        ("vstack(4);transpose", True),
        ("vstack(4);transpose;buda_pad(1, 1)", True),  # what is padded is no stack any more
        ("hslice(3);buda_pad(1, 2)", True),
        ("buda_pad(1, 2)", True),
    ],
)
def test_padding_after_a_stack_is_of_whole_pieces(into: str, fits: bool) -> None:
    """Of four pieces of 2 x 3 tiles."""
    graph = graphs.stacked_unary(4, 2, into, columns=3)
    assert padding_fits(graph, graph.node("op"), BlockShape(1, 50, 50, UBlock(2, 2))) is fits
