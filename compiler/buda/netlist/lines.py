"""Finds the line of a netlist that an error is about."""

from __future__ import annotations

import re

from opscope.compiler.buda.netlist.parse import FUSED_KEYS, GRAPH_KEYS, OP_KEYS, QUEUE_KEYS, STEP_KEYS

SECTIONS = frozenset({"devices", "queues", "graphs", "programs", "fused_ops", "test-config", "attributes"})
FIELDS = SECTIONS | OP_KEYS | QUEUE_KEYS | STEP_KEYS | FUSED_KEYS | frozenset(GRAPH_KEYS)
_KEY = re.compile(r"[ \t]*(?:-[ \t]+)?\{?[ \t]*([^\s:#{}\[\],'\"]+)[ \t]*:")


def with_line(message: str, text: str) -> str:
    """Returns an error's message behind the line of the op, queue or step that it names; as it is if it names none.

    The place is what stands before the first colon, with dots, as in `graphs.fwd_0.op0.inputs`; the last name in it
    that is a key of the file counts, the longest if there are several.
    """
    place = f".{message.partition(': ')[0].strip()}."
    best: tuple[int, int] = (0, 0)
    line = 0
    for number, row in enumerate(text.splitlines(), 1):
        match = _KEY.match(row)
        if match is None or match[1] in FIELDS:
            continue
        at = place.rfind(f".{match[1]}.")
        rank = (at + len(match[1]), len(match[1]))
        if at >= 0 and rank > best:
            best, line = rank, number
    return f"line {line}: {message}" if line else message


__all__ = ["with_line"]
