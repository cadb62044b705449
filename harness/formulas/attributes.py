"""Attributes of a composite, as MLIR prints them, as values; formulas as a person writes them, `softmax(axis=-1)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from opscope.harness.formulas.formula import Formula
from opscope.harness.formulas.table import COMPOSITES, FORMULAS, OWN

_FIELD = re.compile(r'(\w+) = ("[^"]*"|dense<[^>]*>|array<[^>]*>|[^,{}]+)')


WORDS = {"dim": "axis", "eps": "epsilon", "min": "min_val", "max": "max_val"}
"""What frameworks call an attribute -> its name here, where a formula has not that one."""


NAMES = {"swish": "silu", "fix": "trunc", "floor_div": "floor_divide", "clip": "hardtanh"}
"""What frameworks call a formula -> its name here."""


class UnknownFormulaError(ValueError):
    """A text that is no formula of the table; the message says which there are."""


def read(text: str) -> dict[str, Any]:
    """`{axis = 1 : i64, epsilon = 1.0e-05 : f32, shape = dense<8> : tensor<1xi64>}` as Python values: numbers,
    booleans, strings, tuples of integers; what is neither stays text."""
    return {name: value(words.strip()) for name, words in _FIELD.findall(text)}


def value(text: str) -> Any:
    """One attribute, `1.0e-05 : f32`."""
    if text.startswith('"'):
        return text.strip('"')
    if text.startswith(("dense<", "array<")):
        inside = text[text.index("<") + 1 : text.rindex(">")].rpartition(": ")[2]
        return tuple(int(word) for word in re.findall(r"-?\d+", inside))
    word = text.partition(" : ")[0].strip()
    if word in ("true", "false"):
        return word == "true"
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return text


def of_composite(params: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    """The formula of a composite, or of a custom call that stands for one, and its attributes, from the op's
    parameters; None if it has none, or has attributes that the formula does not know."""
    name = params.get("name", params.get("call_target_name", "")).strip('"')
    formula = COMPOSITES.get(name, name.removeprefix(OWN))
    if formula not in FORMULAS or (name not in COMPOSITES and not name.startswith(OWN)):
        return None
    given = read(params.get("composite_attributes", params.get("tt.composite_attributes", "")))
    if formula == "gelu" and given.pop("approximate", "none") == "tanh":
        formula = "gelu_tanh"
    known = FORMULAS[formula].attributes
    # What a framework takes for epsilon where none is given, only its body says.
    if not given.keys() <= known.keys() or ("epsilon" in known and "epsilon" not in given):
        return None
    return formula, {**known, **given}


def named(text: str) -> tuple[str, Formula, dict[str, Any]]:
    """`softmax(axis=-1)` -> name, formula and all its attributes. Raises UnknownFormulaError."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        name = tree.func.id if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else ""
        name = tree.id if isinstance(tree, ast.Name) else name
        call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        name = NAMES.get(name, name)
        given = {each.arg or "": ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, AttributeError):
        raise UnknownFormulaError(f"expected a formula with its attributes, got {text!r}") from None
    formula = FORMULAS.get(name)
    if formula is None:
        raise UnknownFormulaError(f"expected a formula's name without a framework's, got {text!r}")
    given = {key if key in formula.attributes else WORDS.get(key, key): value for key, value in given.items()}
    unknown = [*map(ast.unparse, call.args), *sorted(given.keys() - formula.attributes.keys())]
    if unknown:
        known = ", ".join(f"{key}={value!r}" for key, value in formula.attributes.items()) or "no attributes"
        raise UnknownFormulaError(f"expected {known} of {name} by name, got {', '.join(unknown)}")
    return name, formula, {**formula.attributes, **given}
