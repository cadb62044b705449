"""What a compiler that a YAML file describes is at this moment: its fingerprint and its commit.

Any process can tell that, also one that imports no NumPy: a run whose verdicts are all kept starts no backend.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from opscope.base.digest import file_digest, words_digest
from opscope.harness.backends.commands.description import CommandFile

REVISION_SECONDS = 10.0
"""How long the command for the compiler's commit may take."""


class NoCommitError(ValueError):
    """The command for the compiler's commit failed, and the text says why."""


def fingerprint(file: CommandFile) -> str:
    """A hash of the YAML file, the files that it names, the tools' files and the versions that they print."""
    parts = [file_digest(file.path)]
    parts += [_contents(Path(tool_path(tool) or tool)) for tool in dict.fromkeys((*file.requires, *file.tools))]
    for pattern in file.fingerprint:
        parts += [_contents(path) for path in sorted(Path(file.path.parent).glob(pattern))]
    if file.version:
        done = subprocess.run(
            [tool_path(file.version[0]) or file.version[0], *file.version[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(file),
            check=False,
        )
        parts.append((done.stdout + done.stderr).decode(errors="replace"))
    return f"{file.name}-{words_digest(*parts, digits=16)}"


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
    return {**os.environ, **file.environment}


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
        return file_digest(path)
    except OSError:
        return str(path)
