"""Evaluates a loop or a branch whose body holds a collective: step by step, on all devices at once.

XLA runs such a body on one device only. The devices have to agree on where it goes, as the chips of a board have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opscope.harness.prepare import golden
from opscope.harness.prepare.mesh.per_device import PerDevice
from opscope.harness.prepare.program import Node, Program
from opscope.harness.prepare.walk import Missing

Step = Callable[[Node, dict[int, Any]], None]
"""Evaluates a node and puts its results among the values."""


def interpreted(node: Node, env: Mapping[int, Any], step: Step, devices: int, results: int) -> list[Any]:
    """The results of a `while`, `if` or `case` node on all devices, or Missing with the reason.

    `env` holds the values that the node can see.
    """
    try:
        if node.name == "stablehlo.while":
            condition, body = node.bodies
            state = [env[value] for value in node.operands]
            while _agreed(_run(condition, env, state, step, devices)[0]):
                state = _run(body, env, state, step, devices)
            return state
        chosen = int(_agreed(env[node.operands[0]]))
        if node.name == "stablehlo.if":
            return _run(node.bodies[0 if chosen else 1], env, [], step, devices)
        return _run(node.bodies[chosen if 0 <= chosen < len(node.bodies) else -1], env, [], step, devices)
    except _UnknownError as error:
        return [Missing(f"{node.name}: {error}")] * results


class _UnknownError(Exception):
    """Why a value of a body is not known."""


def _run(body: Program, env: Mapping[int, Any], state: list[Any], step: Step, devices: int) -> list[Any]:
    """What a body hands out. Raises _UnknownError for a value that is missing."""
    local = dict(env) | dict(zip(body.arguments, state, strict=True))
    for inner in body.nodes:
        step(inner, local)
    handed = [local[value] for value in body.results]
    for index, value in enumerate(handed):
        if isinstance(value, Missing):
            raise _UnknownError(value.why)
        if not isinstance(value, PerDevice):  # a constant
            handed[index] = PerDevice((golden.put(value),) * devices)
    return handed


def _agreed(value: Any) -> Any:
    """The element that all devices have. Raises _UnknownError if they part."""
    if isinstance(value, Missing):
        raise _UnknownError(value.why)
    if not isinstance(value, PerDevice):
        return value.item()
    elements = {golden.view(buffer).item() for buffer in value.buffers}
    if len(elements) > 1:
        raise _UnknownError("the devices do not agree on where the program goes")
    return elements.pop()
