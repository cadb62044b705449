"""What a compiler that a YAML file describes is at this moment: its fingerprint and its commit.

Any process can tell that, also one that imports no NumPy: a run whose verdicts are all kept starts no backend.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from opscope.base import content_digests, patterns_files
from opscope.base.children.process import child_environment
from opscope.base.digest import words_digest
from opscope.base.variables import is_harmless, variables_now
from opscope.harness.backends.commands.description import CommandFile

REVISION_SECONDS = 10.0
"""How long the command for the compiler's commit may take."""


class NoCommitError(ValueError):
    """The command for the compiler's commit failed, and the text says why."""


def fingerprint(file: CommandFile) -> str:
    """A hash of the YAML file, the files that it names, the tools' files and the versions that they print."""
    return f"{file.name}-{words_digest(*parts(file).values(), digits=16)}"


def parts(file: CommandFile) -> dict[str, str]:
    """What a file's compiler is made of, by what a reader calls it: digests of files and of variables, and words."""
    folder = str(file.path.parent.resolve())

    def short(path: Path) -> str:
        return str(path).replace(f"{file.path.parent}{os.sep}", "")

    named = {short(path): _contents(path) for path in declared(file)}
    named["what its commands say"] = "\0".join(file.words)  # with what {env:NAME} stands for
    named["the names of its files"] = "\0".join(map(short, _found(file)))  # a tool that reads a folder sees them
    # As a child has them, since any process asks for this.
    variables = {**child_environment(), **file.environment}
    for name in sorted(name for name in variables if not is_harmless(name)):
        named[f"variable {name}"] = words_digest(name, variables[name].replace(folder, ""), digits=16)
    if file.version:
        done = subprocess.run(
            [tool_path(file.version[0]) or file.version[0], *file.version[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(file),
            check=False,
        )
        named["what its version says"] = (done.stdout + done.stderr).decode(errors="replace")
    return named


def declared(file: CommandFile) -> list[Path]:
    """The files whose content counts: the YAML file, tools and their libraries, what `fingerprint` finds or else what
    a tool was installed with, and what words of commands name."""
    variables = environment(file)
    tools = [
        Path(tool_path(tool) or shutil.which(tool, path=variables.get("PATH")) or tool)
        for tool in dict.fromkeys((*file.requires, *file.tools))
    ]
    return [
        file.path,
        *(path for tool in tools for path in (tool, *libraries(tool, variables))),
        *(path for tool in file.tools if not file.fingerprint for path in _installed_with(tool)),
        *_found(file),
    ]


def _found(file: CommandFile) -> list[Path]:
    """The files that `fingerprint` finds, and those that words of commands name."""
    return [
        *(path for pattern in file.fingerprint for path in matching(file, pattern)),
        *(path for word in file.words for path in _named_in(word, file.path.parent)),
    ]


def unseen(file: CommandFile) -> str:
    """Why no verdict of a file's compiler is kept; empty if what its tools are made of is known."""
    if any(matching(file, pattern) for pattern in file.fingerprint):
        return ""
    if file.fingerprint:
        return f"its `fingerprint` finds no file: {', '.join(file.fingerprint)}"
    if file.tools and all(_installed_with(tool) for tool in file.tools):
        return ""  # programs of installed distributions, all files of which count
    return "add `fingerprint: [...]`, patterns of the files that its tools are made of"


def matching(file: CommandFile, pattern: str) -> list[Path]:
    """The files that a pattern of `fingerprint` finds, from the folder of the YAML file; all files of a folder."""
    return patterns_files.of(Path(file.path.parent), pattern)


@cache
def _installed_with(tool: str) -> tuple[Path, ...]:
    """All files of the distribution that has installed a tool; none if none has, or if its code lies elsewhere."""
    path = Path(tool_path(tool) or tool).absolute()
    for distribution in metadata.distributions():
        files = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
        named = [file for file in files if file.name == path.name]
        if any(file.resolve() == path.resolve() for file in named):
            editable = '"editable": true' in (distribution.read_text("direct_url.json") or "")
            return () if editable else tuple(sorted(file for file in files if file.suffix != ".pyc"))
    return ()


@cache
def _loader_lists(program: str, mark: tuple[int, ...], variables: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    try:
        done = subprocess.run(
            ["ldd", program],
            env=variables_now() | dict(variables),
            capture_output=True,
            text=True,
            timeout=REVISION_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", done.stdout, re.MULTILINE))


def libraries(program: Path, variables: Mapping[str, str]) -> list[Path]:
    """The libraries that the loader finds for an executable with these variables; none for a script."""
    try:
        with program.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return []
        status = program.stat()
    except OSError:
        return []
    seen = tuple((name, value) for name, value in variables.items() if name == "PATH" or name.startswith("LD_"))
    found = _loader_lists(str(program), (status.st_ino, status.st_size, status.st_mtime_ns), seen)
    return sorted(map(Path, found))


def _named_in(word: str, folder: Path) -> list[Path]:
    """The files that a word of a command names: itself, a part of it behind `=`, `:`, `@`, `,` or a space, and what
    follows a letter, as in `-I/path`; those of a folder that it names."""
    paths: list[Path] = []
    for part in dict.fromkeys([word, *re.split(r"[=:@,\s]", word), re.sub(r"^-\w+(?=/)", "", word)]):
        if not part or "{" in part:
            continue
        path = folder / part
        if path.is_file():
            paths.append(path)
        elif path.is_dir() and os.sep in part.rstrip(os.sep):
            paths += sorted(patterns_files.below(path))
    return paths


def revision(file: CommandFile) -> str:
    """What the file's command for the compiler's commit prints. Raises NoCommitError if it fails or takes too long."""
    words = file.revision
    if not words:
        return ""
    command = " ".join(words)
    try:
        done = subprocess.run(
            [tool_path(words[0]) or words[0], *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(file),
            cwd=file.path.parent.resolve(),
            timeout=REVISION_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoCommitError(f"nothing from `{command}` within {REVISION_SECONDS:.0f} s") from None
    except OSError as error:
        raise NoCommitError(f"`{command}`: {error.strerror or error}") from None
    output = done.stdout.decode(errors="replace")
    if done.returncode or not output.strip():
        message = error_line(done.stderr.decode(errors="replace")) or "no output"
        raise NoCommitError(f"exit code {done.returncode} from `{command}`: {message}")
    return output


def environment(file: CommandFile) -> dict[str, str]:
    """The variables of every command."""
    return variables_now() | dict(file.environment)


def tool_path(tool: str) -> str | None:
    """Returns the path of a tool on PATH or in the interpreter's folder; None if it is in neither."""
    if tool == "python":
        return sys.executable
    folder = Path(sys.executable).parent
    return shutil.which(tool) or shutil.which(tool, path=str(folder))


def error_line(text: str) -> str:
    """The line of a tool's output that explains its failure: the first with the word error or git's `fatal:`, or the
    last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = (line for line in lines if "error" in line.lower() or line.startswith("fatal:"))
    return next(telling, lines[-1] if lines else "")


def _contents(path: Path) -> str:
    """Returns the digest of a file, or its name if it cannot be read."""
    try:
        return content_digests.of(str(path))
    except OSError:
        return str(path)
