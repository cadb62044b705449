"""The mutants of our source: what mutmut's operators make of comparisons, numbers, `and`, `or` and `not`.

A mutant is known by its file, its function, its statement and its place among the mutants of that statement, never by a
line number: marks, coverage, stored outcomes and the draw stay right when a file grows above it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

FOLDERS = (
    "harness/verdict",
    "harness/prepare",
    "harness/climb",
    "harness/record",
    "compiler/passes",
    "compiler/buda",
    "reports/compare",
    "reports/publish",
)
"""Where a fault that goes unnoticed does most harm: what decides a verdict, a plan or what changed overnight."""

OPERATORS: tuple[tuple[type[cst.CSTNode], Callable[[Any], Iterable[cst.CSTNode]]], ...] = (
    (cst.ComparisonTarget, mutators.operator_swap_op),
    (cst.Is, mutators.operator_keywords),
    (cst.IsNot, mutators.operator_keywords),
    (cst.In, mutators.operator_keywords),
    (cst.NotIn, mutators.operator_keywords),
    (cst.BooleanOperation, mutators.operator_swap_op),
    (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    (cst.BaseNumber, mutators.operator_number),
)
"""Kind of node -> what it becomes: `<` is `<=`, `==` is `!=`, `in` is `not in`, `and` is `or`, `not x` is x, 3 is 4."""

MODULE = "<module>"
"""The function of what runs at import."""

CLOCK = m.Call(func=m.Attribute(m.Name("time"), m.OneOf(*map(m.Name, ("monotonic", "perf_counter", "time")))))
"""A reading of a clock."""
BOUNDARIES = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


@dataclass(frozen=True)
class Mutant:
    """One changed place of one file."""

    path: str
    line: int
    column: int
    order: int
    """Which of the mutants of its place."""
    function: str
    """Its qualified name, or `MODULE`."""
    statement: str
    """The simple statement, or the head of the compound one, in which it is; on one line."""
    number: int
    """Which of the mutants of its statement."""

    @property
    def name(self) -> str:
        """What it is known by while its file changes elsewhere."""
        return json.dumps([self.path, self.function, self.statement, self.number])

    def texts(self, root: Path) -> tuple[str, str]:
        """The file before, and as the mutant has it. Raises ValueError if the file has changed since."""
        source = (root / self.path).read_text()
        for place, old, new, module in _changes(source):
            if (place.line, place.column, new[0]) == (self.line, self.column, self.order):
                return source, module.deep_replace(old, new[1]).code  # type: ignore[arg-type]
        raise ValueError(f"{self.path}:{self.line}: expected the place of a mutant, got another file; try again")

    def lines(self, root: Path) -> tuple[str, str]:
        """The lines that it changes, before and after, without indentation and joined by spaces."""
        before, after = (text.splitlines() for text in self.texts(root))
        first = next(i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
        last = next(
            i for i, pair in enumerate(zip(reversed(before), reversed(after), strict=False)) if pair[0] != pair[1]
        )
        return tuple(  # type: ignore[return-value]
            " ".join(line.strip() for line in text[first : max(len(text) - last, first + 1)])
            for text in (before, after)
        )


@dataclass(frozen=True)
class Statements:
    """Which statement of which function each line of a file belongs to."""

    of_line: dict[int, tuple[str, str]]

    @classmethod
    def of(cls, source: str) -> Statements:
        """Parses a file."""
        lines = source.splitlines()
        of_line: dict[int, tuple[str, str]] = {}

        def visit(node: ast.AST, function: str, inside: str) -> None:
            for child in ast.iter_child_nodes(node):
                name, where = inside, function
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    name = f"{inside}.{child.name}".lstrip(".")
                if isinstance(child, ast.stmt):
                    body = getattr(child, "body", None) or getattr(child, "cases", None)
                    first = min([child.lineno, *(each.lineno for each in getattr(child, "decorator_list", []))])
                    end = child.end_lineno or child.lineno
                    if body:
                        start = body[0].lineno if hasattr(body[0], "lineno") else body[0].pattern.lineno
                        end = max(start - 1, child.lineno)
                    text = " ".join(line.strip() for line in lines[first - 1 : end])
                    of_line.update((number, (function, text)) for number in range(first, end + 1))
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    where = name
                visit(child, where, name)

        visit(ast.parse(source), MODULE, "")
        return cls(of_line)

    def at(self, line: int) -> tuple[str, str]:
        """Function and statement of a line, which need not be the first one of its statement."""
        return self.of_line.get(line, (MODULE, ""))


@functools.lru_cache(maxsize=4)
def _changes(source: str) -> list[tuple[Any, cst.CSTNode, tuple[int, cst.CSTNode], cst.Module]]:
    """Every change of a file: place, node, its number at this place and new node, tree."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    changes: list[tuple[Any, cst.CSTNode, tuple[int, cst.CSTNode], cst.Module]] = []

    alike: set[cst.CSTNode] = set()
    times = {name.value for name in _read_from_clocks(wrapper.module)}

    class Finder(cst.CSTVisitor):
        def visit_Annotation(self, node: cst.Annotation) -> bool:  # noqa: N802  libcst calls it so
            return False  # no annotation is evaluated

        def on_visit(self, node: cst.CSTNode) -> bool:
            alike.update(_alike(node, times))
            if node in alike:
                return super().on_visit(node)
            for kind, operator in OPERATORS:
                if isinstance(node, kind):
                    news = [new for new in operator(node) if not isinstance(node, cst.UnaryOperation) or _is_not(node)]
                    place = positions[node].start  # type: ignore[union-attr]
                    changes.extend(
                        (place, node, (10 * len(changes) + i, new), wrapper.module) for i, new in enumerate(news)
                    )
            return super().on_visit(node)

    wrapper.module.visit(Finder())
    return changes


def _alike(node: cst.CSTNode, times: Set[str]) -> Iterator[cst.CSTNode]:
    """What has no mutant that a test could notice, of the children of a node.

    These are the numbers n of `x.reshape(-n)`, for NumPy takes any negative size for the one that is left; how many
    results an `lru_cache` holds; and `<` beside `<=` where a time is compared that was read from a clock: no test sees
    one hit its limit to the nanosecond.
    """
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "reshape":
        for argument in node.args:
            if isinstance(argument.value, cst.UnaryOperation) and isinstance(argument.value.operator, cst.Minus):
                yield argument.value.expression
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "maxsize":
        yield node.value
    if isinstance(node, cst.Comparison):
        names = {name.value for name in m.findall(node, m.Name()) if isinstance(name, cst.Name)}
        if names & times or m.findall(node, CLOCK):
            yield from (target for target in node.comparisons if isinstance(target.operator, BOUNDARIES))


def _read_from_clocks(module: cst.Module) -> Iterator[cst.Name]:
    """Names that are assigned a reading of a clock, or a sum with one in it."""
    for node in m.findall(module, m.Assign(value=CLOCK | m.BinaryOperation())):
        if isinstance(node, cst.Assign) and m.findall(node.value, CLOCK):
            yield from (each.target for each in node.targets if isinstance(each.target, cst.Name))


def _is_not(node: cst.UnaryOperation) -> bool:
    return isinstance(node.operator, cst.Not)


RULES = Path(__file__).read_bytes()
"""What decides which mutants a file has, and what a stored row holds."""


def of_file(root: Path, path: str) -> Iterator[Mutant]:
    """All mutants of one file."""
    source = (root / path).read_text()
    statements, seen = Statements.of(source), Counter[tuple[str, str]]()
    for place, _, (order, _), _ in _changes(source):
        where = statements.at(place.line)
        yield Mutant(path, place.line, place.column, order, *where, number=seen[where])
        seen[where] += 1


def all_mutants(root: Path, folders: Sequence[str] = FOLDERS, stored: Path | None = None) -> list[Mutant]:
    """All mutants of the folders, in the order of their files; `stored` keeps those of files that stay as they are."""
    files = sorted(path for folder in folders for path in (root / folder).rglob("*.py") if "tests" not in path.parts)
    known: dict[str, list[list[Any]]] = {}
    if stored is not None and stored.exists():
        known = json.loads(stored.read_text())
    rows: dict[str, list[list[Any]]] = {}
    for file in files:
        path = file.relative_to(root).as_posix()
        key = hashlib.sha256(b"\n".join([RULES, path.encode(), file.read_bytes()])).hexdigest()
        rows[key] = known.get(key) or [list(astuple(mutant)) for mutant in of_file(root, path)]
    if stored is not None:
        stored.write_text(json.dumps(known | rows))
    return [Mutant(*row) for each in rows.values() for row in each]


def draw(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of them in a random order, which what changes elsewhere leaves as it is."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())[:count]
