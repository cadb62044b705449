"""Fingerprints: equal for one cause on another machine and op, different for another cause."""

from __future__ import annotations

from opscope.base.tests.each import each
from opscope.harness.record.signature import normalise, shorten, signature

SAME = [
    ("cannot lower tensor<4x8xf32>", "cannot lower tensor<128x?x3xbf16>"),
    ("use of %12 before %arg0#1", "use of %7 before %value#0"),
    ("/home/me/run 1/x.py:12: bad", "/home/me/run 1/elsewhere/y.py:9: bad"),
    ("add (models/jax/net.py:7): bad", "add (mine.mlir:12:3): bad"),
    ("at /home/me/net.py:7", "at net.py:8"),
    ("object at 0x7f3a10 is gone", "object at 0xdeadbeef is gone"),
    ("needs 123456 bytes, 99 free", "needs 8 bytes, 7 free"),
    ("shape (1, 2, 3) and [4,5]", "shape (7,) and [64]"),
    ("no kernel for 1a2b3c4d5e6f7788", "no kernel for 99887766554433ff"),
    ("took 1.5e-3 s", "took 20 s"),
    ("tile 32x32 of 4x8xf32", "tile 16x16 of 1x2x3xf32"),
    ("two\n  lines", "two lines"),
    ("\x1b[31merror\x1b[0m: no", "error: no"),
    ("2 of 4 values differ: expected 7.0, got 7.5 at (0, 1)", "3 of 9 values are wrong: 7.5 instead of 7.0 at (0, 4)"),
    (
        "result 0: largest error: expected at most 1.02 of its scale, got 2 at (0, 0), face 0: expected 1, got -1e-3",
        "result 0: wrong by 0.5 at (0, 2), face 0: 0.724 instead of -2, 96 times as much as rounding allows",
    ),
    ("relative L2: expected at most 0.006, got 0.5", "relative L2: wrong by 0.00624, at most 0.25 is right"),
    (
        "cancelling sum: expected at most 0.1 of its terms, got 0.5 (median 0.2)",
        "cancelling sum: wrong by 0.3 of its terms (median 1e-05), at most 0.2 is right",
    ),
    (
        "systematic error: expected at most 0.01% of the golden, got -0.05%",
        "systematic error: wrong by -0.03% of the golden, at most 0.02% is right",
    ),
    ("PCC: expected at least 0.9, got 0.8", "PCC: -0.7, at least 0.95 is right"),
    ("NaN or Inf: expected 1.5, got nan at element 9", "NaN or Inf: nan instead of 2 at element 7"),
    ("see https://a.example/x?y=1", "see http://b.example/"),
]


@each(("one", "other"), SAME)
def test_equal_causes_have_equal_signatures(one, other):
    assert signature("run", one) == signature("run", other), (normalise(one), normalise(other))


@each(
    ("one", "other"),
    [
        ("stablehlo.add: no kernel", "stablehlo.subtract: no kernel"),
        ("no kernel for conv2d", "no kernel for conv3d"),
        ("expected f32", "expected bf16"),
        ("out of L1", "out of DRAM"),
    ],
)
def test_different_causes_differ(one, other):
    assert signature("run", one) != signature("run", other)


def test_the_stage_counts():
    assert signature("run", "x") != signature("compile", "x")


def test_messages_are_one_short_line():
    assert shorten("a\n b") == "a b"
    assert len(shorten("word " * 100)) <= 200
    assert shorten("word " * 100).endswith("…")
    assert shorten("x" * 200) == "x" * 200
    assert shorten("x" * 201) == "x" * 199 + "…"
    assert shorten("abc def", 5) == "abc…"
    assert shorten("abc def", 7) == "abc def"


def test_only_the_beginning_of_a_report_is_read():
    """65,536 characters, of which a signature counts the first 2,000 without what differs between machines."""
    assert shorten("x" + " " * 65534 + "yz") == "x y"
    assert shorten("x\ud800") == "x\\ud800"
    assert signature("run", "y" * 2000 + "z") == signature("run", "y" * 2001)
    assert signature("run", "y" * 1999 + "z") != signature("run", "y" * 2000)
    assert len(signature("run", "y")) == 12
