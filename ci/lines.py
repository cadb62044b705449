"""The command line of a benchmark that prints a line of a Markdown table for each model, and each value of its axes."""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence


def print_lines(
    description: str | None,
    heads: str,
    row: Callable[..., Iterable[object]],
    models: Sequence[str],
    **axes: Sequence[str | int],
) -> None:
    """Reads the words of the command line and prints the table.

    `heads` are its columns with bars between them. `row` makes the cells of a line, of a model and a value of each
    axis; an axis has an option of its name that takes other values than its own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("models", nargs="*", default=models)
    for name, values in axes.items():
        words = " ".join(map(str, values))
        parser.add_argument(
            f"--{name.replace('_', '-')}", nargs="+", action="extend", type=type(values[0]), help=f"default: {words}"
        )
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    print(f"| {heads} |\n{'|---' * (heads.count('|') + 1)}|")
    for model, *values in itertools.product(options.models, *(getattr(options, name) or axes[name] for name in axes)):
        print(f"| {' | '.join(map(str, row(model, *values)))} |", flush=True)
