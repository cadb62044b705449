"""The mutants of our source: what mutmut's operators make of comparisons, numbers, `and`, `or` and `not`.

A mutant is known by its file, its function, its statement and its place among the mutants of that statement, never by a
line number: marks, coverage, stored outcomes and the draw stay right when a file grows above it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

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

MODULE = "<module>"
"""The function of what runs at import."""


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
        from ci.mutation.changes import changes

        source = (root / self.path).read_text()
        for place, old, new, module in changes(source):
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


RULES = b"".join(Path(__file__).with_name(name).read_bytes() for name in ("mutants.py", "changes.py"))
"""What decides which mutants a file has, and what a stored row holds."""


def of_file(root: Path, path: str) -> Iterator[Mutant]:
    """All mutants of one file."""
    from ci.mutation.changes import changes

    source = (root / path).read_text()
    statements, seen = Statements.of(source), Counter[tuple[str, str]]()
    for place, _, (order, _), _ in changes(source):
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
