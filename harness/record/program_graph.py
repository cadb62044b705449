"""A compiled program as a graph: what a compiler's IR says is computed, and nothing of how it is printed.

An op is its name, its attributes, the types of its operands and results, and the results that it reads. Names of
values, aliases and functions, locations, comments, the order of attributes and of independent ops, and where memory is
freed are no part of it, so that they cannot make two programs differ. Functions stand where they are called, and a
fused computation of XLA is part of its fusion. MLIR in generic form or in a dialect's own, and XLA's HLO. Standard
library only.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

from opscope.base.digest import words_digest

ARGUMENT = "argument"
"""The name of a node that is a value from outside: of the program, or of a region."""
RETURN = "return"
LOADS = frozenset({"ttcore.load_cached"})
"""Calls that are made once, before the first run: what they call is evaluated ahead."""
FREES = frozenset({"ttnn.deallocate", "stream.resource.dealloca"})
"""Ops that follow from the others: where a value's memory is freed."""
HANDLES = frozenset({"ttnn.get_device"})
"""Ops that stand for the device, as often as a function needs it: one of each is enough."""
_WRITTEN = re.compile(r"tensor<|memref<|!")
"""Types of what an op without results may write to: the first such operand (`ttnn.update_cache`),"""
_TO_THE_LAST = re.compile(r"\.(?:copy|write)")
"""but of these the last."""
_MOST_DEEP = 64
"""Calls within calls."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|>=|[<>()\[\]{},]')
_CLOSING = {">": "<", ")": "(", "]": "[", "}": "{"}
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"(%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)*) = ")
_NAME = re.compile(r'"([\w.$-]+)"|([A-Za-z_][\w.$-]*)')
_SYMBOL = re.compile(r"@[\w$.-]+")
_FUNCTION = re.compile(r"\"?(?:func\.func|util\.func|util\.initializer|flow\.func|llvm\.func)\b")
_GENERIC_NAME = re.compile(r"\bsym_name = \"([^\"]*)\"")
_PRIVATE = re.compile(r"^\S+ private |\bsym_visibility = \"private\"")
_DECLARED = re.compile(r"(%[\w$.-]+)(?: as (%[\w$.-]+))?\s*:")
_FLOAT = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?![\w.])")
_DOUBLE = "f64"
_INDEX = re.compile(r"\b(-?\d+) : index\b")
_WITHOUT_DIALECT = frozenset({RETURN, "call", "yield"})
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Op:
    """One op of a program."""

    name: str
    """`ttnn.add`, `fusion kLoop`."""
    attributes: tuple[tuple[str, str], ...]
    """Sorted by name."""
    operands: tuple[str, ...]
    """Types."""
    results: tuple[str, ...]
    """Types."""
    sources: tuple[tuple[int, int], ...]
    """Of each operand, the place of the op that made it and the number of that one's result; then the ends of the op's
    regions, and the ops that wrote last to what it reads."""
    inside: str = ""
    """The ops whose regions hold it, outermost first, with `/` between them."""
    ahead: bool = False
    """Whether it is evaluated once, before the first run (const-eval)."""
    holds: tuple[tuple[str, int], ...] = ()
    """Of a fusion: the ops that it has fused, and how many of each."""

    @cached_property
    def key(self) -> str:
        """What the op is, without what it reads."""
        parts = (self.name, self.attributes, self.operands, self.results, self.inside, self.ahead, self.holds)
        return words_digest(repr(parts))


@dataclass(frozen=True)
class Program:
    """A graph of ops, each after those that it reads."""

    ops: tuple[Op, ...]

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Of each op, a digest of itself and of all that leads to it."""
        digests: list[str] = []
        for op in self.ops:
            read = " ".join(f"{digests[place]}#{number}" for place, number in op.sources)
            digests.append(words_digest(op.key, read))
        return tuple(digests)

    @cached_property
    def digest(self) -> str:
        """Equal for programs that compute the same by the same ops, whatever their order."""
        return words_digest(*sorted(self.digests))

    @property
    def computing(self) -> Iterator[Op]:
        """The ops without the values from outside and the ends of functions."""
        return (op for op in self.ops if op.name not in (ARGUMENT, RETURN))

    def users(self) -> list[list[tuple[int, int]]]:
        """Of each op, the places of the ops that read it, and at which operand."""
        users: list[list[tuple[int, int]]] = [[] for _ in self.ops]
        for place, op in enumerate(self.ops):
            for operand, (source, _) in enumerate(op.sources):
                users[source].append((place, operand))
        return users


def read(text: str) -> Program:
    """The program that a text of MLIR or of HLO is; without ops where it is neither."""
    text = _COMMENT.sub(lambda match: match[1] or "", text)
    functions = _hlo(text) if _IS_HLO.search(text) else _mlir(text)
    return Program(tuple(_Builder(functions).ops))


# --- statements, as they stand in the text


@dataclass
class _Statement:
    """One op as it is written."""

    name: str
    results: list[str]
    """Names of its values."""
    operands: list[str]
    attributes: tuple[tuple[str, str], ...]
    operand_types: tuple[str, ...]
    result_types: tuple[str, ...]
    callee: str = ""
    """The function that stands here."""
    regions: list[_Body] = field(default_factory=list)
    holds: str = ""
    """Of a fusion: the function that it holds."""


@dataclass
class _Body:
    """The statements of a function or of a region, and the names of the values that it is given."""

    arguments: list[tuple[str, str]] = field(default_factory=list)
    """Name and type."""
    statements: list[_Statement] = field(default_factory=list)


class _Builder:
    """Puts the functions of a program where they are called."""

    def __init__(self, functions: Mapping[str, _Body]) -> None:
        self._functions = functions
        self.ops: list[Op] = []
        self._handles: dict[str, tuple[int, int]] = {}
        self._written: dict[tuple[int, int], tuple[int, int]] = {}
        """A value -> the op that wrote to it last."""
        called = {
            name
            for body in functions.values()
            for statement in _statements(body)
            for name in (statement.callee, statement.holds)
            if name
        }
        for name, body in functions.items():
            if name not in called:
                values = self._arguments(body, (), "")
                self._body(body, values, "", ahead=False, depth=0)

    def _arguments(self, body: _Body, sources: tuple[tuple[int, int], ...], inside: str) -> dict[str, tuple[int, int]]:
        values = {}
        for number, (name, kind) in enumerate(body.arguments):
            values[name] = len(self.ops), 0
            self.ops.append(Op(ARGUMENT, (("number", str(number)),), (), (kind,), sources, inside))
        return values

    def _body(
        self, body: _Body, values: dict[str, tuple[int, int]], inside: str, *, ahead: bool, depth: int
    ) -> list[tuple[int, int]]:
        """Adds the ops of a body; what its last statement reads, if that is an end, else that statement itself."""
        for statement in body.statements:
            if statement.name in FREES:
                continue
            sources = tuple(values[name] for name in statement.operands if name in values)
            called = self._functions.get(statement.callee) if statement.callee else None
            if called is not None and depth < _MOST_DEEP:
                ahead_here = ahead or statement.name in LOADS
                given = dict(zip((name for name, _ in called.arguments), sources, strict=False))
                ends = self._body(called, given, inside, ahead=ahead_here, depth=depth + 1)
                if statement.name in LOADS:  # how many there are counts, and not which values each has
                    self.ops.append(Op(statement.name, (), (), (), (), inside))
                values.update(zip(statement.results, ends, strict=False))
                continue
            if statement.name in HANDLES and statement.name in self._handles:
                values.update(dict.fromkeys(statement.results, self._handles[statement.name]))
                continue
            within = f"{inside}/{statement.name}".lstrip("/")
            for region in statement.regions:
                own = {**values, **self._arguments(region, sources, within)}
                sources += tuple(self._body(region, own, within, ahead=ahead, depth=depth))
            held = self._held(statement.holds)
            if depth and statement.name == RETURN:
                return list(sources)
            place = len(self.ops)
            sources += tuple(dict.fromkeys(self._written[value] for value in sources if value in self._written))
            if statement is not body.statements[-1] and (written := _written(statement)) in values:
                self._written[values[written]] = place, 0
            self.ops.append(
                Op(
                    statement.name,
                    (*statement.attributes, *held[1]),
                    () if statement.name == RETURN else statement.operand_types,  # an end is an end, whatever its types
                    statement.result_types,
                    sources,
                    inside,
                    ahead and statement.name not in HANDLES,
                    held[0],
                )
            )
            values.update({name: (place, number) for number, name in enumerate(statement.results)})
            if statement.name in HANDLES:
                self._handles[statement.name] = place, 0
        return [(len(self.ops) - 1, 0)] if body.statements and self.ops else []

    @cache  # noqa: B019 - a builder lives as long as one text is read
    def _held(self, name: str) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]:
        """The ops of a fused computation, and its digest as an attribute."""
        if not name or name not in self._functions:
            return (), ()
        below = _below(name, self._functions)
        inner = _Builder({key: body for key, body in self._functions.items() if key == name or key in below})
        program = Program(tuple(inner.ops))
        counts = Counter(op.name for op in program.computing)
        return tuple(sorted(counts.items())), (("computation", program.digest),)


def _written(statement: _Statement) -> str:
    """The name of the value that an op writes to; empty where it writes to none, or its form does not say."""
    if statement.results or len(statement.operands) != len(statement.operand_types):
        return ""
    able = [
        name for name, kind in zip(statement.operands, statement.operand_types, strict=True) if _WRITTEN.match(kind)
    ]
    return able[-1 if _TO_THE_LAST.search(statement.name) else 0] if able else ""


def _below(name: str, functions: Mapping[str, _Body]) -> set[str]:
    """The functions that a function calls, and those that they call."""
    found: set[str] = set()
    left = [name]
    while left:
        for statement in _statements(functions[left.pop()]):
            for called in (statement.callee, statement.holds):
                if called in functions and called not in found:
                    found.add(called)
                    left.append(called)
    return found


def _statements(body: _Body) -> Iterator[_Statement]:
    for statement in body.statements:
        yield statement
        for region in statement.regions:
            yield from _statements(region)


# --- MLIR


def _mlir(text: str) -> dict[str, _Body]:
    """The functions of an MLIR module; what stands in none of them is one more, without a name."""
    functions: dict[str, _Body] = {"": _Body()}
    private: set[str] = set()
    named: dict[str, list[str]] = defaultdict(list)
    """Function -> those that its text names."""
    stack: list[tuple[_Body, _Statement | None, str]] = [(functions[""], None, "")]
    for line in map(str.strip, text.splitlines()):
        body, owner, _ = stack[-1]
        if not line:
            continue
        opens = line.endswith("{")
        heads = opens and _FUNCTION.match(line)
        if not heads and (symbols := _SYMBOL.findall(line)):
            named[next((name for _, _, name in reversed(stack) if name), "")] += symbols
        if line.startswith("^"):
            body.arguments += _declared(line)
            continue
        if line.startswith("}"):
            if len(stack) == 1:
                continue
            stack.pop()
            if owner is None:
                continue
            if line.endswith("{"):  # its next region
                region = _Body()
                owner.regions.append(region)
                stack.append((region, owner, ""))
            else:
                _complete(owner, line.lstrip("}) "))
            continue
        if heads:
            del stack[1:]  # functions stand in none
            symbol = _SYMBOL.search(line)
            generic = _GENERIC_NAME.search(line)
            name = (
                f"@{generic[1]}" if generic is not None else symbol[0] if symbol is not None else f"@{len(functions)}"
            )
            functions[name] = _Body(_declared(line) if generic is None else [])
            if _PRIVATE.search(line):
                private.add(name)
            stack.append((functions[name], None, name))
            continue
        statement = _statement(line)
        if statement is None:
            if opens:  # a module, or what else only holds others
                stack.append((body, None, ""))
            continue
        body.statements.append(statement)
        if opens:
            region = _Body([(inner, kind) for inner, kind in _declared(line) if inner not in statement.operands])
            statement.regions.append(region)
            stack.append((region, statement, ""))
    return _reached(functions, [name for name in functions if name not in private] or [*functions], named)


def _reached(
    functions: Mapping[str, _Body], entries: Iterable[str], named: Mapping[str, Sequence[str]]
) -> dict[str, _Body]:
    """The functions that `entries` lead to, since what nobody calls is not run; a callee is one of them or none.
    `named`: function -> those that its text names."""
    live, left = set[str](), [*entries]
    while left:
        if (name := left.pop()) in functions and name not in live:
            live.add(name)
            left += named.get(name, ())
    reached = {name: body for name, body in functions.items() if name in live}
    names = {name for name in reached if name}
    for body in reached.values():
        for statement in _statements(body):
            statement.callee = statement.callee if statement.callee in names else ""
    return reached


def _declared(line: str) -> list[tuple[str, str]]:
    """The values that the head of a function, of a block or of a region declares, with their types."""
    return [(match[2] or match[1], _first_type(line[match.end() :])) for match in _DECLARED.finditer(line)]


def _first_type(text: str) -> str:
    """The type that a text begins with."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if depth == 0 and token in ",{)":
            return _normal(text[: match.start()])[0]
        depth += (token in _CLOSING.values()) - (token in _CLOSING)
    return _normal(text)[0]


def _statement(line: str) -> _Statement | None:
    """One line of a module; None if it is no op."""
    results: list[str] = []
    if (match := _RESULTS.match(line)) is not None:
        for name, _, count in (word.partition(":") for word in match[1].split(", ")):
            results += [f"{name}#{number}" for number in range(int(count))] if count else [name]
        line = line[match.end() :]
    named = _NAME.match(line)
    if named is None:
        return None
    name, rest = named[1] or named[2], line[named.end() :]
    if not (named[1] or results or "." in name or rest.lstrip().startswith("%") or name in _WITHOUT_DIALECT):
        return None
    name = RETURN if name in ("func.return", "util.return") else name
    symbol = _SYMBOL.search(rest)
    statement = _Statement(name, results, [], (), (), (), symbol[0] if symbol is not None else "")
    _complete(statement, rest)
    return statement


def _complete(statement: _Statement, rest: str) -> None:
    """Adds what a piece of an op's text says: operands, attributes, types. The piece behind its regions is another."""
    form, kinds = _typed(rest.rstrip(" {").removesuffix("(").rstrip())
    found = _VALUE.findall(form)
    statement.operands += found
    attributes, left = _dictionaries(_VALUE.sub("%", form), _DOUBLE if _DOUBLE in kinds else "")
    left = _SPACES.sub("", left).strip("(),")
    if left.strip("%,[]()"):
        callee = statement.callee
        attributes.append(
            ("form", _normal(left.replace(callee, "@") if callee and len(callee) > 1 else left, kinds)[0])
        )
    statement.attributes = tuple(sorted([*statement.attributes, *attributes]))
    if kinds:
        before, arrow, after = _arrow(kinds)
        statement.operand_types = _types(before) if arrow or not statement.results else ()
        statement.result_types = _types(after if arrow else before) if arrow or statement.results else ()


def _typed(text: str) -> tuple[str, str]:
    """A statement without its types, and these: what stands behind the last colon outside brackets."""
    place = -1
    for start, end in _outside(text):
        found = text.rfind(" : ", start, end)
        place = found if found >= 0 else place
    return (text, "") if place < 0 else (text[:place], text[place + 3 :])


def _arrow(kinds: str) -> tuple[str, str, str]:
    """The types before and behind the arrow outside brackets."""
    depth = 0
    for match in _TOKEN.finditer(kinds):
        if match[0] == "->" and not depth:
            return kinds[: match.start()], "->", kinds[match.end() :]
        depth += (match[0] in _CLOSING.values()) - (match[0] in _CLOSING)
    return kinds, "", ""


@lru_cache(maxsize=4096)
def _types(text: str) -> tuple[str, ...]:
    text = text.strip()
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return tuple(_normal(kind.strip())[0] for kind in _split(text) if kind.strip())


def _outside(text: str) -> Iterator[tuple[int, int]]:
    """The stretches of a text that are in no bracket and in no quotes."""
    depth = start = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _CLOSING.values():
            if not depth:
                yield start, match.start()
            depth += 1
        elif token in _CLOSING:
            depth -= 1
            if not depth:
                start = match.end()
        elif not depth and token[0] == '"':
            yield start, match.start()
            start = match.end()
    if depth <= 0:
        yield start, len(text)


def _split(text: str) -> list[str]:
    """The parts of a text between commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "," and depth <= 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
        depth += (token in _CLOSING.values()) - (token in _CLOSING)
    return [*parts, text[begin:]]


def _dictionaries(form: str, kind: str) -> tuple[list[tuple[str, str]], str]:
    """The attributes in the dictionaries of a statement, and what is left of its text."""
    attributes: list[tuple[str, str]] = []
    left, depth, begin, kept = [], 0, 0, 0
    for match in _TOKEN.finditer(form):
        token = match[0]
        if token in _CLOSING.values():
            if not depth and token in "{<":
                left.append(form[kept : match.start()])
                begin = match.end()
                kept = -1
            depth += 1
        elif token in _CLOSING:
            depth -= 1
            if not depth and kept < 0:
                inner = form[begin : match.start()].strip()
                inner = inner[1:-1] if inner.startswith("{") and inner.endswith("}") else inner
                attributes += _attributes(inner, kind)
                kept = match.end()
    return attributes, "".join([*left, form[max(kept, 0) :] if kept >= 0 else ""])


@lru_cache(maxsize=4096)
def _attributes(text: str, kind: str) -> tuple[tuple[str, str], ...]:
    """The attributes of a dictionary; one without a value says nothing."""
    found = []
    for part in _split(text):
        name, equals, value = part.strip().partition(" = ")
        if name and value.strip() != "[]":
            found.append((name.strip(), _normal(value)[0]) if equals else (_normal(name, kind)[0], ""))
    return tuple(found)


@lru_cache(maxsize=8192)
def _normal(text: str, kind: str = "") -> tuple[str]:
    """A value as it is always written: floats by the shortest digits of their 32 or 64 bits, an index without its
    type. `kind` is its type where the text does not say it."""
    read = _double if _DOUBLE in text + kind else _float
    text = _INDEX.sub(r"\1", _FLOAT.sub(lambda match: read(match[0]), text))
    return (_SPACES.sub(" ", text.strip()),)


def _double(text: str) -> str:
    return repr(float(text))


def _float(text: str) -> str:
    """The digits of the nearest float of 32 bits, so that `1e-05` and `9.99999974E-6` are one number."""
    try:
        return repr(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        return _double(text)


# --- HLO

_IS_HLO = re.compile(r"^HloModule\b|^ENTRY ", re.MULTILINE)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) (?:\(.*)?\{$")
_INSTRUCTION = re.compile(r"^(ROOT )?%?([\w.-]+) = (.*)$")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|\w+_computations?)=(\{[^}]*\}|%?[\w.-]+)")
_SAYS_NOTHING = frozenset({"metadata", "frontend_attributes", "outer_dimension_partitions", "origin"})


def _hlo(text: str) -> dict[str, _Body]:
    """The computations of an HLO module that its entry leads to; all of them where it has none."""
    functions: dict[str, _Body] = {}
    entry = ""
    body, root, kinds, numbers = _Body(), "", dict[str, str](), dict[str, int]()
    for line in map(str.strip, text.splitlines()):
        if (match := _INSTRUCTION.match(line)) is not None:
            kind, opcode, inner, rest = _parts_of(match[3])
            kinds[match[2]] = kind
            root = match[2] if match[1] else root
            if opcode == "parameter":
                numbers[match[2]] = int(inner)
                body.arguments.append((match[2], kind))
            else:
                body.statements.append(_instruction(match[2], opcode, (kind, inner, rest), kinds))
        elif line.endswith("{") and (head := _COMPUTATION.match(line)) is not None:
            body = functions[head[1]] = _Body()
            kinds, numbers = {}, {}
            entry = head[1] if line.startswith("ENTRY") else entry
        elif line == "}" and body.arguments + body.statements:
            body.statements.append(_Statement(RETURN, [], [root], (), (), ()))
            body.arguments.sort(key=lambda argument: numbers[argument[0]])
            body = _Body()
    kept = {entry} | _below(entry, functions)
    return {name: each for name, each in functions.items() if name in kept} if entry else functions


def _parts_of(text: str) -> tuple[str, str, str, str]:
    """Of an instruction: the type, the opcode, what stands in its brackets, and behind them."""
    start = _end(text, 0) + 1 if text.startswith("(") else text.find(" ")
    kind, call = text[:start], text[start:].lstrip()
    opcode = call.partition("(")[0]
    close = _end(call, len(opcode))
    return kind, opcode, call[len(opcode) + 1 : close], call[close + 1 :]


def _instruction(name: str, opcode: str, parts: tuple[str, str, str], kinds: Mapping[str, str]) -> _Statement:
    """An instruction: what it calls stands in its place, what it holds is part of it."""
    kind, inner, rest = parts
    is_constant = opcode in ("constant", "iota")
    operands = [] if is_constant else [word.split()[-1].lstrip("%") for word in _split(inner) if word.strip()]
    attributes = [("value", _normal(inner, kind)[0])] if is_constant else []
    called: list[str] = []
    for part in filter(None, map(str.strip, _split(rest))):
        key, _, value = part.partition("=")
        if (match := _CALLED.match(part)) is not None:
            called += [word.strip(" {}%") for word in match[1].split(",")]
        elif key == "control-predecessors":  # what has to run before, though nothing of it is read
            operands += [word.strip(" {}%") for word in value.split(",")]
        elif key not in _SAYS_NOTHING:
            attributes.append((key, _SPACES.sub("", _normal(_ordered(value))[0])))
    if opcode == "fusion":
        opcode = f"fusion {dict(attributes).get('kind', '')}".strip()
    types = tuple(kinds.get(word, "") for word in operands)
    statement = _Statement(opcode, [name], operands, tuple(sorted(attributes)), types, (kind,))
    if len(called) == 1 and opcode == "call":
        statement.callee = called[0]
    elif len(called) == 1:
        statement.holds = called[0]
    else:  # a loop's condition and body, the branches of a choice
        statement.regions = [
            _Body([], [_Statement("computation", [], [], (), (), (), "", [], each)]) for each in called
        ]
    return statement


def _ordered(value: str) -> str:
    """A value in JSON, in quotes or not, with its keys in order; any other as it is."""
    try:
        read = json.loads(value)
        read = json.loads(read) if isinstance(read, str) else read
    except ValueError:
        return value
    return json.dumps(read, sort_keys=True)


def _end(text: str, start: int) -> int:
    """The place of the bracket that closes the one at `start`."""
    depth = 0
    for match in _TOKEN.finditer(text, start):
        depth += (match[0] in _CLOSING.values()) - (match[0] in _CLOSING)
        if not depth:
            return match.start()
    return len(text)
