"""The classes of inputs that `--inputs classes` runs an op on, one after another: what ops of a kind are hard on.

A class is a distribution of `seeding.py` with the op's own numbers in braces. A verdict is kept by the text of the
distribution that its inputs were drawn from: where a class is written otherwise, that class runs again and no other.
The last that fails is what a record says, so the plainest come last.
"""

ONE_OPERAND = {"every number": "every:{low:g}:{high:g}"}
"""Of an elementwise op; `low` and `high` are the ends of the operand's domain."""

SEVERAL_OPERANDS = {
    "every number": "every:{low:g}:{high:g}",
    "near 1": "every:{low:g}:{high:g}:1",
}

ROWS = {
    "one dominant": "spiked:{width}:20",
    "an outlier": "spiked:{width}:256",
    "duplicates": "repeated:{width}:3",
    "reversed": "sorted:{width}:-1",
    "sorted": "sorted:{width}:1",
    "far from zero": "normal:100:1",
    "integers": "int:120:136",
    "zeros": "zeros",
    "constant": "repeated:{width}:1",
    "scaled": "scaled:{width}:-8:7",
    "cancelling": "cancelling:{width}",
    "one sign": "uniform:0:1",
    "normal": "normal:1",
}
"""Of an op that sums, multiplies, normalises or sorts; `width` is the operand's last dimension."""

TABLES = (ONE_OPERAND, SEVERAL_OPERANDS, ROWS)
"""What an export folder with drawn classes depends on."""
