"""The cause of a failure, and failures grouped by cause, so that a page tells each cause once with its ops below it.

A cause is a fingerprint of what a record says, so that records and databases of any age get the same one:

    of an error that a compiler or a device reports   status, stage, and text with placeholders also for names of ops;
                                                      the name too, where the op itself is what is refused
    of wrong numbers, which have no such text         op name, element type and hypothesis
    of a hang, of a crash without a message           how it ended, stage and op name

An error's *signature* (signature.py) is finer: it tells whether one op fails as it did before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from opscope.base.digest import words_digest
from opscope.base.document.groups import short
from opscope.base.op_families import NAMES
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.signature import normalise
from opscope.harness.record.stages import FAILED, Status

if TYPE_CHECKING:
    from opscope.harness.record.records import OpTest, TensorDesc

UNSPLITTABLE = "unsplittable"
"""In place of a status: no module could be made of the op."""
LESS_EXACT = "less_exact"
"""In place of a status: the op is right, but further from its golden than before."""
DIGITS = 12
"""Hex digits of a cause."""

COMPLAINT = 100
"""So many characters of a normalised error count: records have an error's first 200, and what the placeholders leave
of these must be as long for each op that has the error."""

_OP = re.compile(
    r"""(["'`]?)(?<![\w.#!%@<])(?!(?:np|numpy|jnp|jax|torch)\.\w+\b(?!\.)|[\w.]*\.(?:py|mlir|ya?ml|json|so)\b)"""
    r"""[a-z_]\w*(?:\.[A-Za-z_]\w*)+\1"""
)
"""`dialect.name` of any dialect, quoted or not; not `torch.float32` and not `model.mlir`."""
_PLACE = re.compile(r"<op=\w+>")
QUOTES = "\"'`"
_ID = re.compile(r"[0-9a-fA-F]{4,12}")
_REPEATED = re.compile(r"(<\w+>)(?:,? \1)+")
"""One placeholder several times: how many operands an op has is no part of its complaint."""
_BARE = re.compile(
    r"""((?:\b(?:for|lower|legalize|of|in|by|running|executing|op|operation|operator|primitive|kernel|named|supports?|"""
    r"""unsupported|to\s+\w+|\w*Error)[:\s]+)+|^)?"""
    r"""(["'`]?)\b([a-z_]\w*)\b\2"""
)
"""A word where an error may name an op without its dialect: in quotes, at the beginning, or after such a word."""
_NAMED = r"<op=(?P<{}>\w+)>"
_NOUN = r"(?:(?:op|operation|operator|instruction|node|kernel)s?\s+(?:called|named\s+)?)?"
_REFUSED = re.compile(
    r"\b(?:legalize|lower|convert|translate|import|support|implement|handle)s?\s+(?:the\s+)?"
    + _NOUN
    + _NAMED.format("a")
    + r"|\b(?:no|missing|unknown|unsupported|unregistered|unimplemented)\s+(?:\w+\s+)?"
    r"(?:op|operation|operator|kernel|lowering|conversion|pattern|implementation|legalization)s?"
    r"(?:\s+(?:for|of|called|named)|:)?\s+"
    + _NOUN
    + _NAMED.format("b")
    + r"|"
    + _NAMED.format("c")
    + r"(?:\([^)]*\))?\s+(?:op\s+)?(?:is|was|has)\s+(?:not|no|un)\s*(?:yet\s+)?"
    r"(?:registered|supported|implemented|lowered|known|available|handled|kernel|lowering)"
    r"|\ba\s+kernel\s+named\s+" + _NAMED.format("d") + r",\s+got\s+none",
    re.IGNORECASE,
)
"""An error that refuses an op by its name: what a compiler lacks for one op is another cause than what it lacks for
another."""
_FOR_ANOTHER_REASON = re.compile(r"\s*(?:(?:in(?!\s+this)|with|without|for|to|because|since|due)\b|:\s)")
"""What follows the name where the op is refused for something that others are refused for too: a type, a layout."""
_ASIDE = re.compile(
    r"(?<=>)(?:\([^()]*\)|<shape>)|\bnamed?\s+(['\"`])[^<>]*?\1|<n>|\bop type\b"
    r"|\b(?:on|for|by)\s+(?:the\s+)?(?:(?:platform|backend|device|target)\s+\w+|\w+\s+(?:platform|backend|device|target))$"
    r"|\b(?:that|which)\s+was\s+explicitly\s+marked\b|<op=\w+>"
)
"""What says nothing of a reason: operands of a named op, the name of a node, a platform, a number of a version."""
_WORD = re.compile(r"<\w+>|[^\W\d_]+(?:['’]t\b)?")
_NEGATIVE = """
not no none never cannot can't couldn't don't doesn't didn't isn't aren't wasn't hasn't won't unable lacks missing
unknown undefined illegal unsupported unregistered unimplemented unhandled unrecognized unrecognised unavailable
keyerror notimplementederror
"""
_MAKING = """
legalize legalized legalization lower lowered lowering convert converted conversion translate translated translation
import imported select selected codegen emit emitted generate generated
"""
_BESIDE = """
legal handle handles handled support supports supported implement implements implemented implementation register
registered registration know knows known recognize recognized find found exist exists available match matched matching
converter handler rule pattern kernel kernels a an any the this that there is are was were be been has have had do
does did to of for on in by with from it its could would will we yet how currently such able got expected named called
name failed failure skipping explicitly marked op ops operation operations operator operators opcode primitive
instruction node function intrinsic custom call target dialect build device platform backend compiler runtime registry
table version opset domain hardware error fatal warning exception runtimeerror valueerror llvm mlir stage pass sorry
"""
_NOT, _MADE = frozenset(_NEGATIVE.split()), frozenset(_MAKING.split())
_OF_REFUSAL = _NOT | _MADE | frozenset(_BESIDE.split())
"""All that an error says which refuses an op and gives no reason."""
_OTHER_LACK = re.compile(
    r"\b(?:un\w+|illegal)\s+(?:error|exception|failure|instruction)\b|\bno\s+(?:\w+\s+)?(?:device|platform|hardware|target)\b"
)
"""Words of a refusal that refuse nothing."""
_END = " ,;:.()[]{}<\"'`"
_OWN_SENTENCE = re.compile(r" at [\w-]+$|signal \w+")
"""Of a crash: the lane's own words, in place of what the process said."""


def cause_of(
    status: str, stage: str, op_name: str, dtype: str, error: str = "", crash: str = "", hypothesis: str = ""
) -> str:
    """The cause of a failure: twelve hex digits, equal for equal causes; empty for an op that did not go wrong.

    `stage` is where it went wrong, `dtype` the element type of the op's first operand (or of its result), `error` the
    error message of the record.
    """
    match status:
        case Status.WRONG_RESULT:
            words = ("wrong numbers", op_name, dtype, hypothesis.partition(":")[0])
        case Status.COMPILE_FAILED | Status.RUN_FAILED | Status.NO_GOLDEN if error:
            words = (status, stage, *_complaint(error, op_name))
        case Status.CRASHED if error and not _OWN_SENTENCE.search(error):
            words = (status, stage, *_complaint(error, op_name))
        case _ if status in FAILED or status in (UNSPLITTABLE, LESS_EXACT):
            words = (crash or status, stage, op_name, *((dtype,) if status == LESS_EXACT else ()))
        case _:
            return ""
    return words_digest(*words, digits=DIGITS)


def cause_of_test(test: OpTest) -> str:
    """The cause of what a record says went wrong; empty if nothing did."""
    return cause_of(
        test.status,
        test.failed_stage or test.stage_reached,
        test.op_name,
        element_type(test.inputs, test.outputs),
        test.error_message or "",
        test.crash_kind or "",
        test.hypothesis,
    )


def element_type(inputs: Iterable[TensorDesc], outputs: Iterable[TensorDesc]) -> str:
    """The element type of an op's first operand, of its first result if it has none."""
    return next((tensor.data_type for tensors in (inputs, outputs) for tensor in tensors), "")


@lru_cache(maxsize=4096)
def _complaint(text: str, op_name: str) -> tuple[str, ...]:
    """An error without what differs between the ops that have it; and the name of the op, where that is refused."""
    if text.endswith("…"):  # cut, perhaps in the middle of a type
        text = text[:-1].rpartition(" ")[0]
    text = normalise(text)
    names = NAMES | {op_name.rpartition(".")[2]}

    def without_name(match: re.Match[str]) -> str:
        before, quote, word = match.groups()
        stands_for_op = word in names and (before is not None or quote)
        return f"{before or ''}<op={word}>" if stands_for_op else match[0]

    def without_dialect(match: re.Match[str]) -> str:
        return f"<op={match[0].strip(QUOTES).rpartition('.')[2]}>"

    named = _BARE.sub(without_name, _OP.sub(without_dialect, text))
    refused = _refused_op(named)
    return (_REPEATED.sub(r"\1", _PLACE.sub("<op>", named))[:COMPLAINT].rstrip(_END), *((refused,) if refused else ()))


def _refused_op(named: str) -> str:
    """The op that an error refuses by its name, in a text where `<op=fft>` stands for ops; empty if it gives a reason
    for which others are refused too, or none is named: where all that it says beside the name is that it is not there,
    or in a form that goes on with what follows from that."""
    found = _REFUSED.search(named)
    if found is not None and not _FOR_ANOTHER_REASON.match(named, found.end()):
        return next(filter(None, found.groups()))
    said = _ASIDE.sub(" ", named.lower())
    words = {word.replace("’", "'") for word in _WORD.findall(said)}
    of_making = "failed" in words and not words.isdisjoint(_MADE)
    says_no = of_making or not words.isdisjoint(_NOT)
    name = _PLACE.search(named)
    if name is None or not says_no or not words <= _OF_REFUSAL or _OTHER_LACK.search(said):
        return ""
    return name[0][len("<op=") : -1]


def may_name_cause(text: str) -> bool:
    """Whether a text looks like the beginning of a cause."""
    return _ID.fullmatch(text) is not None


def cause_named(beginning: str, causes: Iterable[str], where: str) -> str:
    """The one of some causes that begins so. Raises InputError where none does, or several."""
    known = sorted(set(causes) - {""})
    fitting = [cause for cause in known if cause.startswith(beginning.lower())] if beginning else []
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError(where, "one cause", f"{len(fitting)} that begin with `{beginning}`", ", ".join(fitting[:5]))
    hint = closest(beginning, list(map(short, known)), 3) if known else "opscope unblock, which lists causes"
    raise InputError(where, "the id of a cause, or its beginning", f"`{beginning}`", hint)
