"""The records of a run: what is written to the journal, published, and read back years later.

Only pydantic and the standard library. Records are frozen and carry `schema_version`. `OpTest` keeps the field
names of tenstorrent/tt-github-actions' `OpTest` and adds ours; `RunRecord` says where a run came from.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from opscope.harness.record.result_options import record_fields
from opscope.harness.record.stages import FAILED, ModelStatus, Stage, Status
from opscope.harness.record.workflows import SPLIT

SCHEMA_VERSION = 1

PRODUCTS_IN_A_ROW = "products_in_a_row"
"""Parameter of a whole model: the most products of which each reads what came of the one before."""
WHOLE_MODEL = "model"
"""Stands in the place of an op's name where the row is a model as one program."""


class Record(BaseModel):
    """Base of every record: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorDesc(Record):
    """One tensor of an op; the last three fields hold what the compiler chose (None before it chose)."""

    shape: tuple[int, ...]
    data_type: str
    """MLIR element type as printed: f32, bf16, i32, i1, ..."""
    buffer_type: str | None = None
    layout: str | None = None
    grid_shape: tuple[int, ...] | None = None


class Source(Record):
    """Where an input's value comes from, so that it can be made again (design.md 11, 17)."""

    kind: str
    """`seeded` (a model's argument: drawn again from law, seed, index), `captured` (a file), `random`."""
    path: str | None = None
    """`captured`: .npy file, relative to the export folder."""
    law: str | None = None
    """`seeded`, `random`: how to draw, e.g. `normal:0.02` (opscope.models.seeding has the laws)."""
    seed: int | None = None
    index: int | None = None
    """`seeded`: argument index in the model; `random`: argument index in the op."""


class Use(Record):
    """One place of one model where the op stands."""

    model: str
    path: str
    """Position in the module, e.g. `main/12` or `main/40.body/3` (op index; region of a loop; op index)."""
    location: str = ""
    """Source location as `name (file:line)`, from the exporter."""
    framework_op: str = ""
    """What the location says the framework called it, e.g. `conv_general_dilated`."""


class OpRow(Record):
    """One unique op of a run's manifest: everything a lane needs to climb it."""

    op_id: str
    op_name: str
    """`stablehlo.add`; a custom call's target is part of the name: `stablehlo.custom_call:Foo`."""
    module: str | None
    """Single-op StableHLO module (bytecode file, relative to the export folder); None: unsplittable."""
    inputs: tuple[TensorDesc, ...] = ()
    outputs: tuple[TensorDesc, ...] = ()
    sources: tuple[Source, ...] = ()
    golden: tuple[str, ...] = ()
    """One .npy per result, relative to the export folder; empty: there is none and `no_golden` says why."""
    no_golden: str = ""
    op_params: dict[str, str] = Field(default_factory=dict)
    """Attributes as MLIR text (tensor literals shortened)."""
    uses: tuple[Use, ...] = ()
    provenance: str = ""
    """`captured:<module>:<weights seed>:<use>` or `random:<seed>`."""
    frontend: str = ""
    unsplittable: str = ""
    """Why no module could be made of it; then `module` is None."""
    level: str = "stablehlo"
    """What `module` is written in: `stablehlo`, or `ttnn`, which enters the ladder where the compiler would have it."""
    argument_types: tuple[str, ...] = ()
    """Of a model as one program: `input` or `parameter` per argument, what its exporter said; empty: all are inputs."""
    held_to: str = ""
    """The op whose tolerance counts, where the name of this one does not say it."""


class ModelFailure(Record):
    """A model that was asked for and of which no op could be run."""

    model: str
    framework: str
    """Empty for a StableHLO file."""
    status: ModelStatus
    error: str
    """One line: what was raised, or how to install what is missing."""
    artifact: str | None = None
    """File with the traceback, relative to the run folder."""


class ManifestHeader(Record):
    """First line of a manifest: the export it belongs to and the counts that must add up."""

    schema_version: int = SCHEMA_VERSION
    models: tuple[str, ...]
    export_dirs: tuple[str, ...]
    """One export folder per model, absolute; a row's files lie in the folder of the model of its first use."""
    module_ops: dict[str, int]
    """Per model: all ops of the module (nested ones and called functions' ops counted once per use)."""
    structural: dict[str, int]
    """Per model: ops that only hold the program together (constant, return, call, ...)."""
    failed: tuple[ModelFailure, ...] = ()
    """The models that are not among `models` though they were asked for."""

    def by_outcome(self) -> dict[str, int]:
        """How many of the models that were asked for ran, and how many of the others failed how."""
        return {"ran": len(self.models), **Counter(failure.status.value for failure in self.failed)}


class StageTime(Record):
    """One climbed stage and what it took."""

    stage: Stage
    seconds: float


class ResultCheck(Record):
    """The comparison of one result of an op with its golden."""

    passed: bool
    pcc: float | None
    """None where PCC has no meaning (integers, one element, no variance): `passed` says the verdict."""
    relative_l2: float | None
    max_abs: float | None
    tolerance: str
    """Name of the row in harness/verdict/tolerance.py."""
    reason: str = ""
    flags: tuple[str, ...] = ()


class Jump(Record):
    """The first op of a model at which its error jumps: wrong on the very inputs that the device had."""

    path: str
    op_id: str
    op_name: str
    location: str = ""
    pcc: float | None = None
    """Of the op's results, the smallest."""
    error: float | None
    """Relative L2 of the op's results, the largest; of integers the share that differs; None: NaN or infinities stand
    elsewhere."""
    pcc_before: float | None = None
    error_before: float | None = 0.0
    """The same of the values that the op was computed from."""
    confirmed: bool = True
    """Whether XLA, on the inputs that the device had, says otherwise than the device; else these are not all known."""


if TYPE_CHECKING:
    _WithOptions = Record
else:
    _WithOptions = create_model("_WithOptions", __base__=Record, **record_fields())


class OpTest(_WithOptions):
    """What became of one unique op in one run on one backend, and the options of the run that have a column."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    op_id: str
    attempt: int = 1
    # --- names of tt-github-actions' OpTest
    test_case_name: str
    full_test_name: str
    filepath: str = ""
    test_start_ts: datetime
    test_end_ts: datetime
    success: bool
    skipped: bool
    error_message: str | None = None
    config: dict[str, str] = Field(default_factory=dict)
    frontend: str = ""
    model_name: str
    op_kind: str = ""
    """Family of the op: eltwise, reduce, matmul, conv, data_movement, ..."""
    op_name: str
    framework_op_name: str = ""
    inputs: tuple[TensorDesc, ...] = ()
    outputs: tuple[TensorDesc, ...] = ()
    op_params: dict[str, str] = Field(default_factory=dict)
    github_job_id: int | None = None
    status: Status
    card_type: str = "none"
    """`sim-n150` is the simulated card and never `n150`, the real one."""
    backend: str
    # --- ours
    stage_reached: Stage
    """The last stage that the op passed."""
    compile_depth: str = ""
    """How deep TT-Buda calls that, of a backend that has depths: `GENERATE_NETLIST`, `FULL`."""
    failed_stage: Stage | None = None
    stages: tuple[StageTime, ...] = ()
    error_signature: str | None = None
    """Fingerprint of the error, equal for equal causes (harness/record/signature.py)."""
    artifact: str | None = None
    """Full diagnostic or dumped IR, relative to the run folder."""
    crash_kind: str | None = None
    """`signal SIGSEGV`, `memory`, `exit 0`, `protocol`: set where status is crashed."""
    pcc: float | None = None
    """The smallest over all results."""
    results: tuple[ResultCheck, ...] = ()
    uses: int = 0
    locations: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    provenance: str = ""
    ran_on: str = "none"
    """`simulator`, `silicon`, `host`, `mixed`, `none`; no rate adds these kinds together."""
    overwritten_inputs: tuple[int, ...] = ()
    """Positions of the inputs that the backend had written into when it was done: another op would have read them."""
    expected: str = ""
    """Reason of the limitation that names this failure, with its kind in front; empty: none does. Of an op that did
    not fail as one says: `unexpected pass: ...`."""
    flaky: bool = False
    """Whether it ended otherwise when it was run again."""
    stability: str = ""
    """Of a failure that was run again: `deterministic`, `flaky` or `infrastructure` (harness/climb/reruns.py)."""
    outcomes: tuple[str, ...] = ()
    """How each of these runs ended, the record's own first."""
    cached_from: str = ""
    """Run that found this verdict, with the times of its stages; empty: this one did."""
    cycles: int | None = None
    """Device cycles of the whole program, from the simulator's cycle model."""
    device_ns: float | None = None
    l1_peak_bytes: int | None = None
    """Per core."""
    dram_peak_bytes: int | None = None
    arch: str = ""
    """Empty in records of before it was recorded."""
    data_format: str = ""
    """The format that the backend says that it computes floats in, asked for or not; so of `math_fidelity`."""
    math_fidelity: str = ""
    workflow: str = SPLIT
    """What was taken through the stages (harness/record/workflows.py)."""
    pipeline: str = ""
    """The compiler's pass pipeline as a string that `opscope opt -p` replays."""
    repro: str = ""
    """One command line that re-runs just this op."""
    intermediates: int | None = None
    """Of a model as one program: how many of its values were compared on the way; None: the backend shows none."""
    jump: Jump | None = None

    @property
    def fails_run(self) -> bool:
        """Whether it is red: a failure that no limitation names, or no failure where one is named."""
        return fails_run(self.status, self.expected)


def fails_run(status: str, expected: str) -> bool:
    """`OpTest.fails_run` of an op that ended with `status`; `expected`: the limitation that names it."""
    return (status in FAILED) is not bool(expected)


VOLATILE = frozenset(
    {
        "run_id",
        "test_start_ts",
        "test_end_ts",
        "stages",
        "attempt",
        "artifact",
        "repro",
        "filepath",
        "full_test_name",
        "cached_from",
        "outcomes",
    }
)
"""Fields of OpTest that may differ between two equal runs."""


class Origin(Record):
    """Which job made a run: joined by key, so that no OpTest is ever half filled."""

    revision: str = ""
    dirty: bool = False
    branch: str = ""
    backend_revision: str = ""
    backend_dirty: bool = False
    ci_job: str = ""
    ci_url: str = ""
    host: str = ""
    cpu: str = ""
    python: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    command_line: tuple[str, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    """Every resolved option; passwords in URLs masked."""


class RunRecord(Record):
    """One run: written when it starts, and again when it ends."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    models: tuple[str, ...]
    backend: str
    arch: str
    started: datetime
    ended: datetime | None = None
    outcome: str = "running"
    """`running`, `complete`, `interrupted`, `out_of_budget`; `partial`: merged from some of its shares."""
    origin: Origin


class Ledger(Record):
    """The counts that must add up (design.md 16)."""

    unique: int
    by_status: dict[Status, int]
    unsplittable: int
    uses: dict[str, int]
    """Per model: uses of unique ops, unsplittable ones apart."""
    unsplittable_uses: dict[str, int]
    structural: dict[str, int]
    module_ops: dict[str, int]
    stability: dict[str, int] = Field(default_factory=dict)
    """Failures that were run again, by label: a column beside the status, no part of the sum."""

    @property
    def adds_up(self) -> bool:
        """Whether every unique op has one status and every op of every module is accounted for."""
        ops = all(
            total == self.uses.get(m, 0) + self.unsplittable_uses.get(m, 0) + self.structural.get(m, 0)
            for m, total in self.module_ops.items()
        )
        return ops and self.unique == sum(self.by_status.values())
