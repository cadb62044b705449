"""Makes an OpTest from a manifest row, with the fields that all outcomes share.

Used by the ladder (what happened), the lane (crash, timeout) and the session (skipped, not run). Standard library
and records only, because pytest processes import it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from pydantic_core import to_jsonable_python

from opscope.base.clocks import now
from opscope.base.op_families import op_family
from opscope.base.source_places import from_any_folder, here
from opscope.harness.record.masking import mask_secrets
from opscope.harness.record.records import OpRow, OpTest, TensorDesc
from opscope.harness.record.result_options import Decides, ResultOptions
from opscope.harness.record.signature import shorten, signature
from opscope.harness.record.stages import FAILED, Stage, Status

DEFAULT_BACKEND = "reference"
DOUBT = "golden in doubt: "
"""How `second_authority` of a record begins where the authorities on the golden part."""
REFUTED = "golden refuted: "
"""How it begins where they agree that the golden is wrong, and have judged the result instead."""


@dataclass(frozen=True)
class RunContext:
    """What all ops of a run on one backend have in common."""

    run_id: str
    run_dir: str
    backend: str = DEFAULT_BACKEND
    """A backend's name or the path of a file that holds one."""
    options: ResultOptions = field(default_factory=ResultOptions)
    keep_ir: bool = False
    dump_tensors: str = "none"
    """Ops whose results are kept with their goldens: `none`, `failing` or `all`."""
    verdicts: str = ""
    """The folder of kept verdicts, where those of equal programs may be taken; empty for none."""
    card_type: str = "none"
    """Filled in by a lane once its backend has reported its target."""
    server: str = ""
    """The artifact server that the run's folder is read from (`--artifact-url`), or empty."""
    compiles_only: bool = False
    """Ops are not run: what is asked is what their backend compiles them to."""

    def as_json(self) -> dict[str, Any]:
        """The context as JSON, for another process."""
        return to_jsonable_python(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The context that another process sent."""
        return cls(**{**values, "options": ResultOptions(**values["options"])})


_WITH_ARGUMENT = re.compile(r"([\w-]{2,}):(.+)(?<!\.py)(?<!\.yaml)(?<!\.yml)", re.DOTALL)
"""`NAME:WHAT`: a backend and what it is given, such as a plugin's name or file."""


_AT_RELEASE = re.compile(r".*@(\d[\w.+!]*|[^@]+\.whl)", re.DOTALL)
"""`NAME@RELEASE`: a backend at a version, or of a wheel."""


def release_in(backend: str) -> str:
    """The version or the wheel that a backend is asked for at: `0.1.2` of `tt@0.1.2`; empty if it is none."""
    match = _AT_RELEASE.fullmatch(backend)
    return match[1] if match is not None else ""


def backend_label(backend: str) -> str:
    """The name that records use for a backend given by name or by file, which is also part of files' names.

    What stands after a colon follows after a dash: `pjrt:cuda` is `pjrt-cuda`, `pjrt:build/libx.so` is `pjrt-libx`.
    A release stays, a wheel without its folder: `tt@0.1.2`, `tt@build/x-1.0-py3-none-any.whl`.
    """
    if release := release_in(backend):
        name = backend.removesuffix(f"@{release}")
        return f"{backend_label(name)}@{release.rsplit('/', 1)[-1].removesuffix('.whl')}"
    match = _WITH_ARGUMENT.fullmatch(backend)
    file = (match[2] if match else backend).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    if match is not None:
        return f"{match[1]}-{file.removesuffix('.so').removesuffix('.dylib').replace(':', '-')}"
    return file.removesuffix(".py").removesuffix(".yaml").removesuffix(".yml")


def repro_line(op_id: str, context: RunContext) -> str:
    """One command line that re-runs just this op as this run did, here or on another machine.

    It has no path of the machine of the run: the run is named by its id, or by its address on an artifact server, and
    a backend that is a file by its label, which the run, or a repro folder of it, knows the file of.
    """
    run = f"{context.server.rstrip('/')}/{context.run_id}" if context.server else context.run_id
    words = ["pytest", "--op-by-op", "--op", op_id, "--run-dir", run]
    if context.backend != DEFAULT_BACKEND:
        words += ["--backend", backend_label(context.backend) if "/" in context.backend else context.backend]
    return shlex.join([*words, *_flags(context.options)])


@lru_cache(maxsize=16)
def _flags(options: ResultOptions) -> list[str]:
    """The flags of an op's repro line: workflow, module, values and files are those of the run folder."""
    folder = ResultOptions(
        workflow=options.workflow, system_desc=options.system_desc, **options.values(Decides.PROGRAM)
    )
    return options.flags(usual=folder)


@lru_cache(maxsize=16)
def _recorded(options: ResultOptions) -> dict[str, Any]:
    """The values of a run's options as its records hold them; not to be changed."""
    return options.recorded()


def build_test(
    row: OpRow,
    context: RunContext,
    *,
    status: Status,
    stage_reached: Stage = Stage.SPLIT,
    started: datetime | None,
    ended: datetime | None = None,
    error: str | None = None,
    failed_stage: Stage | None = None,
    **fields: Any,
) -> OpTest:
    """The record of `row` with `status`; `error` is shortened and fingerprinted, `fields` set the rest.

    With `started` None, the op took no time.
    """
    ended = ended or now()
    if started is not None:
        ended = max(started, ended)  # the clock may have been set back meanwhile
    models = tuple(dict.fromkeys(use.model for use in row.uses))
    first = row.uses[0] if row.uses else None
    model = models[0] if models else ""
    case = f"{row.op_name}[{row.op_id}]"
    if error is not None:
        fields.setdefault("error_message", mask_secrets(shorten(from_any_folder(error))))
        if status in FAILED:
            fields.setdefault("error_signature", signature(failed_stage or stage_reached, error))
    values: dict[str, Any] = {
        "run_id": context.run_id,
        "op_id": row.op_id,
        "test_case_name": case,
        "full_test_name": f"{model}::{case}" if model else case,
        "test_start_ts": started or ended,
        "test_end_ts": ended,
        "success": status is Status.SUCCESS,
        "skipped": status in (Status.SKIPPED, Status.NOT_RUN),
        "frontend": row.frontend,
        "model_name": model,
        "op_kind": op_family(row.held_to or row.op_name),
        "op_name": row.op_name,
        "framework_op_name": first.framework_op if first else "",
        "inputs": row.inputs,
        "outputs": row.outputs,
        "op_params": row.op_params,
        "status": status,
        "card_type": context.card_type,
        "backend": backend_label(context.backend),
        "stage_reached": stage_reached,
        "failed_stage": failed_stage,
        "holds": row.holds,
        "uses": len(row.uses),
        "locations": tuple(dict.fromkeys(here(use.location) for use in row.uses if use.location)),
        "models": models,
        "provenance": row.provenance,
        "input_class": row.input_class,
        "repro": repro_line(row.op_id, context),
        **_recorded(context.options),
    }
    return OpTest(**(values | fields))


def unrun_test(row: OpRow, context: RunContext, status: Status, reason: str) -> OpTest:
    """The record of an op that no lane saw: `skipped` (deselected) or `not_run` (the run ended before it).

    It names no inputs: whether the walk had come to them yet is chance.
    """
    moment = now()
    return build_test(row, context, status=status, started=moment, ended=moment, error=reason, provenance="")


def board_of(card_types: Iterable[str], arch: str) -> str:
    """The board that ops with these cards were compiled for; empty where their backend knows none, as for the host."""
    return arch if any(arch in card or card.startswith("sim-") for card in card_types) else ""


def title(test: OpTest) -> str:
    """Name, id and shapes of an op, on one line."""
    return f"{test.op_name} [{test.op_id}] ({shapes_text(test.inputs)})"


def shapes_text(inputs: Sequence[TensorDesc]) -> str:
    """Shapes and types of the first inputs of an op: `4x6xf32, f32`."""
    shapes = ", ".join(f"{'x'.join(map(str, (*t.shape, t.data_type)))}" for t in inputs[:3])
    return f"{shapes}{', ...' if len(inputs) > 3 else ''}"
