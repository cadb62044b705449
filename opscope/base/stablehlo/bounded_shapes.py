"""Gives tensors of bounded size (`tensor<?x3xf32, #stablehlo.bounds<8, ?>>`) their bounds as sizes."""

from __future__ import annotations

import re

BOUNDED = re.compile(r"tensor<((?:[^,<>]|complex<[^<>]*>)*), #stablehlo\.bounds<([^>]*)>>")


def at_bounds(text: str) -> str:
    """Returns the generic text of a module with every bounded size set to its bound."""
    return BOUNDED.sub(lambda match: f"tensor<{_sized(*match.groups())}>", text)


def _sized(shape: str, bounds: str) -> str:
    """`?x3xf32` with bounds `7, ?` is `7x3xf32`."""
    limits = [limit.strip() for limit in bounds.split(",")]
    *sizes, element = shape.split("x", len(limits))
    return "x".join([*(limit if size == "?" else size for size, limit in zip(sizes, limits, strict=True)), element])
