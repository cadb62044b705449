"""A backend for any compiler that a YAML file of stage commands describes (docs/backends.md).

`--backend FILE.yaml` takes a file; a YAML file in this folder is a backend with the file's name. Tools run in the
lane's process group, so the lane handles time, memory and crashes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from opscope.harness.backends.base import Backend, Job, StageCrashError, StageError, Target, refuse
from opscope.harness.backends.commands import identity, tracing
from opscope.harness.backends.commands.description import CommandFile, CommandStage, read
from opscope.harness.backends.commands.values import OpFiles
from opscope.harness.cache import export_folder
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

OUTPUT_HEAD, OUTPUT_TAIL = 1 << 20, 1 << 16
"""Bytes of a tool's output that are kept from its beginning and from its end."""
_SHELL = {128 + number: number for number in (4, 6, 7, 8, 9, 11)}
"""Exit codes of a shell whose command was killed by a signal."""


class Command(Backend):
    """A compiler that is called by commands; one object per YAML file."""

    lasting = True  # result_cache.recall asks for its fingerprint and its commit anew

    def __init__(self, path: str | Path) -> None:
        """Reads the file. Raises InputError if anything in it is wrong."""
        self._file: CommandFile = read(Path(path))
        self.name = self._file.name
        self.stages = tuple(stage.stage for stage in self._file.stages)
        self.revision = partial(identity.revision, self._file)
        self.repository = self._file.repository
        self._commands = {stage.stage: stage for stage in self._file.stages}
        self._files: OpFiles | None = None

    def target(self, options: ResultOptions) -> Target:
        """The number formats that the file declares; `--data-format` is passed to the commands.

        Raises InputError if `--amp-level` is given, because no command takes it.
        """
        refuse(self.name, options, "amp_level", "numerics", "exact_order")
        numbers = self._file.numbers
        return Target(
            card_type=self._file.card.replace("{arch}", options.arch),
            float_format=options.data_format or numbers.get("float_format"),
            math_fidelity=options.math_fidelity or numbers.get("math_fidelity", "exact"),
            matrix_format=numbers.get("matrix_format"),
            rounds_steps=True,
        )

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """A hash of the YAML file, the files that it names, the tools' files and the versions that they print."""
        export_folder.recall_sources(export_folder.cache_dir())  # what the controller has read is not read again
        return identity.fingerprint(self._file)

    def climb(self, stage: Stage, job: Job) -> None:
        """Runs the stage's command. Raises StageError with the tool's own message, StageCrashError if it crashed."""
        if self._files is None or self._files.op_id != job.op_id or stage is self.stages[0]:
            self._files = OpFiles(job, self._file.form)
        files, step = self._files, self._commands[stage]
        if stage is Stage.RUN:
            files.write_inputs(job, step.command)
        output = files.folder / step.writes
        words = files.words(step.command, job, output, self._file.path.parent.resolve())
        text = self._called(step, words, output)
        if stage is Stage.RUN:
            try:
                job.outputs = files.results(job, step.command)
            except (OSError, ValueError) as error:
                raise StageError(f"{step.command[0]} left with exit code 0 and {error}", text) from error
            job.ran_on = self._file.ran_on
            return
        if not output.is_file() or not output.stat().st_size:
            fault = "an empty" if output.is_file() else "no"
            raise StageError(f"{step.command[0]} left with exit code 0 and wrote {fault} {step.writes}", text)
        files.previous = output
        if job.ir_dir is not None:
            shutil.copyfile(output, job.ir_dir / f"{stage}{output.suffix}")

    def structure(self, job: Job) -> Mapping[str, int]:
        """Counts what the patterns of the file find in what the last stage wrote."""
        if self._files is None or not self._file.structure:
            return {}
        text = self._files.previous.read_text(encoding="utf-8", errors="replace")
        return {name: len(re.findall(word, text, re.MULTILINE)) for name, word in self._file.structure.items()}

    def available(self) -> str | None:
        """Returns None if every tool is found, otherwise the missing ones and the file's command that installs them."""
        missing = [tool for tool in self._file.requires if identity.tool_path(tool) is None]
        if not missing:
            return None
        return f"{self._file.install or 'an absolute path, or another PATH'} (not on PATH: {', '.join(missing)})"

    def _called(self, step: CommandStage, words: list[str], output: Path) -> str:
        """Runs one command to its end and returns what it printed. Raises StageError, StageCrashError."""
        tool = identity.tool_path(words[0]) or words[0]
        with output.open("wb") if step.stdout else open(os.devnull, "wb") as file:  # noqa: PTH123
            try:
                process = subprocess.Popen(
                    [*tracing.words(), tool, *words[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=file if step.stdout else subprocess.PIPE,
                    stderr=subprocess.PIPE if step.stdout else subprocess.STDOUT,
                    env=identity.environment(self._file),
                    cwd=output.parent,
                )
            except OSError as error:
                raise StageError(f"{words[0]}: {error.strerror or error}") from error
            text = _read(process)
        text = text.replace(f"{output.parent}{os.sep}", "")
        code = _SHELL.get(process.returncode, -process.returncode)
        if process.returncode < 0 or process.returncode in _SHELL:
            name = signal.Signals(code).name
            raise StageCrashError(f"signal {name}", f"{words[0]} was killed by {name}", text)
        if process.returncode:
            raise StageError(identity.error_line(text) or f"{words[0]} left with exit code {process.returncode}", text)
        return text


def _read(process: subprocess.Popen[bytes]) -> str:
    """Returns the beginning and the end of a tool's output."""
    pipe = process.stdout or process.stderr
    head, tail, left_out = bytearray(), bytearray(), 0
    assert pipe is not None
    with pipe:
        while data := pipe.read1(1 << 16):  # type: ignore[attr-defined]
            room = OUTPUT_HEAD - len(head)
            head += data[:room]
            tail += data[room:] if room > 0 else data
            if len(tail) > 2 * OUTPUT_TAIL:
                left_out += len(tail) - OUTPUT_TAIL
                del tail[:-OUTPUT_TAIL]
    process.wait()
    gap = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
    return bytes(head + gap + tail).decode(errors="replace")
