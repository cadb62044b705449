"""The records of a run: what is written to the journal, published, and read back years later.

Only pydantic and the standard library. Records are frozen and carry `schema_version`. `OpTest` keeps the field
names of tenstorrent/tt-github-actions' `OpTest` and adds ours; `RunRecord` says where a run came from.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from opscope.base.statuses import PASSED, RIGHT, ending
from opscope.harness.record.field_types import Id, InnerPath, Int
from opscope.harness.record.measures import MEASURES, Measures, measure_fields
from opscope.harness.record.result_options import record_fields
from opscope.harness.record.stages import FAILED, ImportStatus, ModelStatus, Stage, Status
from opscope.harness.record.workflows import SPLIT

SCHEMA_VERSION = 1

PRODUCTS_IN_A_ROW = "products_in_a_row"
"""Parameter of a whole model or a piece of one: the length of its longest chain of products, each reading the result of
the last."""
QUANTISED = "quantised"
"""Parameter of an op of quantised tensors: the element types of what it takes and gives. Its inputs and outputs are the
stored integers."""
WHOLE_MODEL = "model"
"""Used instead of an op's name if the row is a whole model as one program."""
AMPLIFIED = "amplified"
"""Flag of a result of a piece that is as far off as allowed errors of its ops, which others amplify, may be."""


class Record(BaseModel):
    """Base of every record: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)


class TensorDesc(Record):
    """One tensor of an op; the last three fields hold what the compiler chose (None before it chose)."""

    shape: tuple[Int, ...]
    data_type: str
    """MLIR element type as printed: f32, bf16, i32, i1, ..."""
    buffer_type: str | None = None
    layout: str | None = None
    grid_shape: tuple[Int, ...] | None = None


class Source(Record):
    """Where an input's value comes from, so that it can be made again (harness/prepare/inputs.py)."""

    kind: str
    """`seeded` (a model's argument, drawn again from distribution, seed and index), `captured` (a file), `random`."""
    path: InnerPath | None = None
    """The .npy file of a `captured` value, relative to the export folder."""
    law: str | None = None
    """The distribution of a `seeded` or `random` value, e.g. `normal:0.02` (see opscope.models.seeding)."""
    seed: Int | None = None
    index: Int | None = None
    """Argument index: in the model for `seeded`, in the op for `random`."""
    generator: Int = 1
    """The version of what draws a `seeded` or `random` value (opscope.models.arguments.GENERATOR): a golden for the
    values of another one is not this op's. Manifests that do not say it are of version 1."""
    whole: tuple[Int, ...] = ()
    """Of a device's part of an argument: the shape of the whole, which the file or the distribution gives."""
    start: tuple[Int, ...] = ()
    """Where the part begins in it; what reaches over its end is zero."""


class Use(Record):
    """One place where the op occurs in a model."""

    model: str
    path: str
    """Position in the module, e.g. `main/12` or `main/40.body/3` (op index; region of a loop; op index)."""
    location: str = ""
    """Source location as `name (file:line)`, from the exporter."""
    framework_op: str = ""
    """The framework's name of the op, from its location, e.g. `conv_general_dilated`."""


class Shard(Record):
    """The operands and goldens that some devices of a mesh have in common."""

    devices: tuple[Int, ...]
    """Their places in the mesh, row by row."""
    sources: tuple[Source, ...] = ()
    golden: tuple[InnerPath, ...] = ()
    term_sizes: tuple[str, ...] = ()


class SecondAuthority(Record):
    """What a second authority computes for an op whose golden is known to be wrong in this form, and why it was asked.

    `harness/prepare/authorities/known_wrong.py` has the forms.
    """

    by: str
    values: tuple[InnerPath, ...] = ()
    """One .npy per result, relative to the export folder. Empty if they are the golden itself, or if there are none."""
    text: str
    """In one line: what is known to be wrong and its source, or why there is no second authority."""


class ClassInputs(Record):
    """The operands and goldens of one class of inputs (`--inputs classes`)."""

    input_class: str
    sources: tuple[Source, ...] = ()
    golden: tuple[InnerPath, ...] = ()
    term_sizes: tuple[str, ...] = ()
    no_golden: str = ""
    second: SecondAuthority | None = None


class HeldOp(Record):
    """An op that a piece of a model holds."""

    op_id: Id
    op_name: str
    path: str
    """Where it stands, in the first place of the piece."""


class OpRow(Record):
    """One unique op of a run's manifest: everything a lane needs to climb it."""

    op_id: Id
    op_name: str
    """`stablehlo.add`; a custom call's target is part of the name: `stablehlo.custom_call:Foo`."""
    module: InnerPath | None
    """Single-op StableHLO module (bytecode file, relative to the export folder); None if the op is unsplittable."""
    inputs: tuple[TensorDesc, ...] = ()
    outputs: tuple[TensorDesc, ...] = ()
    sources: tuple[Source, ...] = ()
    golden: tuple[InnerPath, ...] = ()
    """One .npy per result, relative to the export folder. Empty if there is no golden; `no_golden` has the reason."""
    term_sizes: tuple[str, ...] = ()
    """Of a sum with a golden: one .npy per result, bfloat16, with the root sum of squares of each element's terms."""
    no_golden: str = ""
    second: SecondAuthority | None = None
    """For an op form whose golden is known to be wrong. For others a second authority is asked when they fail."""
    op_params: dict[str, str] = Field(default_factory=dict)
    """Attributes as MLIR text (tensor literals shortened)."""
    uses: tuple[Use, ...] = ()
    provenance: str = ""
    """`captured:<module>:<weights seed>:<use>`; `random:<seed>`, `classes:<seed>`, or the first two with a `+`, where
    inputs stand in for values that nobody has."""
    frontend: str = ""
    unsplittable: str = ""
    """Why the op is unsplittable: no module could be made of it, and `module` is None."""
    level: str = "stablehlo"
    """The dialect of `module`: `stablehlo`, or `ttnn`, which enters the ladder where the compiler has it."""
    argument_types: tuple[str, ...] = ()
    """For a whole model or a piece of one: `input` or `parameter` per argument; if empty, all are inputs."""
    held_to: str = ""
    """The op whose tolerance applies, if it does not follow from this op's name."""
    holds: tuple[HeldOp, ...] = ()
    """Of a piece of a model: its ops, in the program's order; constants and splats that came along are not among
    them."""
    devices: Int = 1
    """How many devices compute it together: those of the mesh for a collective."""
    shards: tuple[Shard, ...] = ()
    """With a mesh: one per different set of operands, in the order of their first devices, of a collective one per
    device. The first is what `sources`, `golden` and `term_sizes` hold too."""

    input_class: str = ""
    """The class that these inputs are of; empty without `--inputs classes`."""
    other_classes: tuple[ClassInputs, ...] = ()
    """The other classes of inputs that the op is run on."""

    @property
    def by_class(self) -> tuple[OpRow, ...]:
        """The op on each class of its inputs; itself alone where there are none."""
        own = self.model_copy(update={"other_classes": ()}) if self.other_classes else self
        return own, *(own.model_copy(update=dict(each)) for each in self.other_classes)

    def on(self, shard: Shard) -> OpRow:
        """The op on some devices of the mesh."""
        values = {"sources": shard.sources, "golden": shard.golden, "term_sizes": shard.term_sizes}
        return self.model_copy(update={**values, "shards": ()})

    def of_failure(self, test: OpTest) -> OpRow:
        """The op on the first devices of a mesh with a wrong result alone, unchanged if all compute it together; on the
        class of inputs that the record is of."""
        if self.other_classes:
            return next((row for row in self.by_class if row.input_class == test.input_class), self.by_class[0])
        if not self.shards or self.devices > 1:
            return self
        device = next((check.device for check in test.results if not check.passed), None)
        shard = next((shard for shard in self.shards if device in shard.devices), self.shards[0])
        return self.on(shard).model_copy(update={"shards": (shard,)})


class ModelFailure(Record):
    """A requested model of which no op could be run."""

    model: str
    framework: str
    """Empty if the model is a StableHLO file."""
    status: ModelStatus
    error: str
    """One line: the error that was raised, or how to install what is missing."""
    artifact: InnerPath | None = None
    """File with the traceback, relative to the run folder."""


def import_fails(status: str, expected: str) -> bool:
    """Whether an import makes its run red: it differs or crashes its framework and no limitation names it, or agrees
    although one does."""
    return (status in (ImportStatus.DIFFERS, ImportStatus.CRASHED)) is not bool(expected)


class ImportCheck(Record):
    """Whether what was imported of a model computes what the model's own framework does, on equal inputs."""

    model: str
    framework: str = ""
    """The frontend: limitations name it as their backend."""
    status: ImportStatus
    importer: str = ""
    """The packages that imported it, with their versions."""
    held_to: str = ""
    """What computed the results that it is held to: `torch 2.13.0`, `reference of onnx 1.23.2`."""
    output: Int | None = None
    """The first result that differs."""
    error: str = ""
    """How it differs, why it was not checked, or why it agrees although its scale is exceeded."""
    z_max: float | None = None
    """The largest error over its own scale; of a result that differs that one's."""
    node: str = ""
    """Of an ONNX graph: the first node whose value differs, `node_1/Mod`, or in brackets why it is not known."""
    expected: str = ""
    """Reason of the limitation that names the difference, or `unexpected pass: ...`."""

    @property
    def fails_run(self) -> bool:
        """Whether the model is red: a difference that no limitation names, or none although one names it."""
        return import_fails(self.status, self.expected)

    @property
    def text(self) -> str:
        """The check in one line, without the model's name."""
        if self.status is ImportStatus.AGREES:
            return self.expected or f"agrees with {self.held_to}" + f", {self.error}" * bool(self.error)
        if self.status is ImportStatus.NOT_CHECKED:
            return f"import not checked: {self.error}"
        if self.status is ImportStatus.CRASHED:
            return f"{self.status}: {self.error}"
        place = f" at {self.node}" if self.node else ""
        result = f", result {self.output}" if self.output is not None else ""
        return f"{self.status}: {self.importer} against {self.held_to}{result}{place}: {self.error}"


class ManifestHeader(Record):
    """First line of a manifest: the export it belongs to and the counts that must add up."""

    schema_version: Int = SCHEMA_VERSION
    models: tuple[str, ...]
    export_dirs: tuple[str, ...]
    """The export folder of each model, in a run's folder relative to the cache; a row's files are in the folder of the
    model of its first use."""
    module_ops: dict[str, Int]
    """Per model: all ops of the module (nested ones and called functions' ops counted once per use)."""
    structural: dict[str, Int]
    """Per model: ops that only hold the program together (constant, return, call, ...)."""
    dead: dict[str, Int] = Field(default_factory=dict)
    """Per model: ops that no result needs and that have no effect, which were left out; 0 where it is not named."""
    notes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Per model: what a user should know of its export, in lines, which each run says that has the model."""
    failed: tuple[ModelFailure, ...] = ()
    """The models that were requested but could not be prepared. One whose goldens failed is in `models` too, and one
    that the budget cut off while they were made also in `unfinished`."""
    imports: tuple[ImportCheck, ...] = ()
    """One for each of `models` that a framework exported. Files of StableHLO are not imported."""
    unfinished: tuple[str, ...] = ()
    """The models whose goldens were being made when this was written: of their ops, it says what was known then. It is
    written again once they are made; a run that ended before, or whose budget did, prepares them again when it goes
    on."""

    @property
    def lost(self) -> dict[str, ModelFailure]:
        """The models whose goldens failed after their ops were known, which no `--resume` prepares again."""
        models = {*self.models} - {*self.unfinished}
        return {failure.model: failure for failure in self.failed if failure.model in models}

    def by_outcome(self) -> dict[str, int]:
        """How many of the requested models ran, and how many failed in each way."""
        failed = {failure.model for failure in self.failed}
        ran = sum(model not in failed for model in self.models)
        return {"ran": ran, **Counter(failure.status.value for failure in self.failed)}


class StageTime(Record):
    """One stage that was passed, and how long it took."""

    stage: Stage
    seconds: float


class ResultCheck(Record):
    """The comparison of one result of an op with its golden."""

    passed: bool
    pcc: float | None
    """None if PCC has no meaning (integers, one element, no variance): `passed` is the verdict."""
    relative_l2: float | None
    max_abs: float | None
    tolerance: str
    """Name of the row in harness/verdict/tolerance.py."""
    reason: str = ""
    flags: tuple[str, ...] = ()
    z_max: float | None = None
    """The largest error over its own scale (docs/verdicts.md); None if no scale applies (integers, exact values)."""
    z_limit: float | None = None
    """What it may be."""
    z_index: tuple[int, ...] = ()
    """The index of that element."""
    z_place: str = ""
    """Its tile, face and row of the face."""
    question: str = ""
    """The question that the result failed: `largest`, `systematic`, `placed` or `rounding`; empty if none."""
    device: Int | None = None
    """With a mesh: the first device that has this result."""
    digest: str = ""
    """Of its type, shape and bytes (XXH3-128); empty in older records, and where it is judged as drawn numbers are."""


class Jump(Record):
    """The first op of a model at which its error jumps: wrong even on the inputs that it had on the device."""

    path: str
    op_id: str
    op_name: str
    location: str = ""
    pcc: float | None = None
    """The smallest PCC over the op's results."""
    error: float | None
    """The largest relative L2 over the op's results; for integers the share that differs; None if NaN or infinities are
    at other positions."""
    pcc_before: float | None = None
    error_before: float | None = 0.0
    """The same for the values that the op was computed from."""
    confirmed: bool = True
    """True if XLA, on the inputs that the device had, disagrees with the device; False if not all of these inputs are
    known."""


class Structure(Record):
    """What a compiler made of a program (harness/record/structure.py)."""

    ops: dict[str, Int] = Field(default_factory=dict)
    """Op -> how many there are in each execution."""
    ahead: dict[str, Int] = Field(default_factory=dict)
    """The same of what is evaluated once, before the first (const-eval)."""
    fused: dict[str, Int] = Field(default_factory=dict)
    """What is fused into other ops: `ttnn.linear relu`, or `multiply` in a fusion of XLA."""
    memory: dict[str, dict[str, Int]] = Field(default_factory=dict)
    """Op -> memory and layout of its first result (`l1 width_sharded`) -> how many."""
    casts: Int = 0
    on_host: Int = 0
    """Ops that the host computes, and values that go back to it."""
    launches: Int = 0
    """Ops that are started one by one."""
    temp_bytes: Int | None = None
    """Temporary memory, of compilers that say so."""
    cycles: dict[str, Int] = Field(default_factory=dict)
    """Kernel -> cycles of all its calls in one execution, where it ran on the simulator."""
    counted: bool = False
    """Whether a backend has counted the ops itself, since its IR is neither MLIR nor HLO: there is no graph of them."""


class ClassEnding(Record):
    """How an op ended on one class of its inputs."""

    input_class: str
    status: Status
    error: str = ""
    z_max: float | None = None
    cached_from: str = ""
    """The earlier run that its verdict is from; empty if it ran."""


if TYPE_CHECKING:
    _WithOptions = Record
else:
    _WithOptions = create_model("_WithOptions", __base__=Record, **record_fields())


TAKEN = " in "
"""In `OpTest.cached_from`: between a release that had made an equal program of the op, and its run."""


class _Ended(_WithOptions):
    """The part of an OpTest before what was measured."""

    schema_version: Int = SCHEMA_VERSION
    run_id: Id
    op_id: Id
    attempt: Int = 1
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
    github_job_id: Int | None = None
    status: Status
    card_type: str = "none"
    """`sim-n150` is the simulated card and never `n150`, the real one."""
    backend: Id
    # --- ours
    stage_reached: Stage
    """The last stage that the op passed."""
    compile_depth: str = ""
    """TT-Buda's name of that depth, if the backend has depths: `GENERATE_NETLIST`, `FULL`."""
    failed_stage: Stage | None = None
    stages: tuple[StageTime, ...] = ()
    error_signature: str | None = None
    """Fingerprint of the error, equal for equal causes (harness/record/signature.py)."""
    artifact: InnerPath | None = None
    """Full diagnostic or dumped IR, relative to the run folder."""
    crash_kind: str | None = None
    """`signal SIGSEGV`, `memory`, `exit 0`, `protocol`; set only if the status is crashed."""
    pcc: float | None = None
    """The smallest PCC over all results."""
    z_max: float | None = None
    """The largest error over its own scale (docs/verdicts.md), over all results; of a wrong result that one's."""
    z_place: str = ""
    """Where that element is: index, tile, face, row of the face."""
    question: str = ""
    """The question that the numbers failed: `largest`, `systematic`, `placed`, `rounding`; empty if none."""
    hypothesis: str = ""
    """What made the numbers wrong, in one sentence, if something fits (harness/explain/hypotheses); empty if not."""
    second_authority: str = ""
    """What a second authority computes where the golden was questioned, in one line; empty if none was asked."""
    results: tuple[ResultCheck, ...] = ()
    holds: tuple[HeldOp, ...] = ()
    """The ops of a piece of a model; empty for a single op."""
    uses: Int = 0
    locations: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    provenance: str = ""
    ran_on: str = "none"
    """`simulator`, `silicon`, `host`, `mixed`, `none`; no rate adds these kinds together."""
    compiled_by: str = ""
    """Whose program ran, where another made it than the backend is called after: distribution and version."""
    narrowed: tuple[str, ...] = ()
    """Where the compiler made values narrower than the op's types, unasked: `f32 -> bf16 at ttnn.max_pool2d`."""
    overwritten_inputs: tuple[Int, ...] = ()
    """Positions of the inputs that the backend overwrote: another op would have read the changed values."""
    left_behind: tuple[str, ...] = ()
    """What the op left changed in its process, such as `umask: 22 -> 77`; the next op got a fresh process."""
    expected: str = ""
    """Reason of the limitation that names this failure, with its kind in front; empty if none does. If the op did not
    fail as a limitation expects: `unexpected pass: ...`."""
    flaky: bool = False
    """Whether the outcome changed when the op was run again."""
    stability: str = ""
    """Label of a failure that was run again: `deterministic`, `varying`, `flaky` or `infrastructure`
    (harness/climb/reruns.py); of a right op with other bits in another run `varying` (harness/lanes/repeated.py), in
    a batch of one `batch_dependent` (harness/lanes/batch.py)."""
    outcomes: tuple[str, ...] = ()
    """How each of these runs ended; the first is this record's own."""
    canary: str = ""
    """Where runs differ: what a known-good op on the same host blames, `card`, `node` or `code`, and why
    (harness/lanes/canary.py)."""
    input_class: str = ""
    """With `--inputs classes`, the class of inputs that this record is of: the last that failed, or the worst."""
    input_classes: tuple[ClassEnding, ...] = ()
    """How the op ended on each class of its inputs."""
    cached_from: str = ""
    """The earlier run that the verdict and stage times come from; empty if they are from this run. Where
    another release had made an equal program of the op, that release and its run, with TAKEN between them; stage times
    are then this run's."""


if TYPE_CHECKING:

    class _Measured(_Ended, Measures):
        pass

else:
    _Measured = create_model("_Measured", __base__=_Ended, **measure_fields())


LINE = 120
"""Columns of what an OpTest is printed as."""


class OpTest(_Measured):
    """The outcome of one unique op in one run on one backend.

    It has the options of the run that have a column, how the op ended, and what was measured of it (measures.py).
    """

    arch: str = ""
    """Empty in records that are older than the field."""
    data_format: str = ""
    """The format in which the backend reports to compute floats, requested or not; likewise for `math_fidelity`."""
    math_fidelity: str = ""
    workflow: str = SPLIT
    """The workflow: what went through the stages (harness/record/workflows.py)."""
    pipeline: str = ""
    """The compiler's pass pipeline as a string that `opscope opt -p` replays."""
    repro: str = ""
    """One command line that re-runs just this op."""
    intermediates: Int | None = None
    """For a whole model: how many of its values were compared during the run; None if the backend shows none."""
    jump: Jump | None = None
    structure: Structure | None = None
    """For a whole model, and with `--keep-ir` for every op: what is in its program, where the compiler shows that."""

    @model_validator(mode="after")
    def _as_it_ended(self) -> OpTest:
        """An op that was stopped after the last stage asked for has passed; so has one of an older record."""
        if self.status is Status.STOPPED and ending(self.status, self.stage_reached, self.ran_on) == PASSED:
            vars(self).update(status=Status.PASSED, success=True)  # the record itself is frozen
        return self

    def __repr__(self) -> str:
        """One line: the op, how it ended and where. All fields are in `model_dump()`."""
        place = f" at {self.failed_stage.value}" if self.failed_stage else ""
        error = f": {self.error_message}" if self.error_message else ""
        line = f"OpTest({self.op_name} [{self.op_id}] {self.status.value}{place} on {self.backend}{error}"
        return f"{line if len(line) < LINE else line[: LINE - 4] + '...'})"

    __str__ = __repr__

    @property
    def right(self) -> bool:
        """Whether the op is right, as far as its backend can show."""
        return self.status in RIGHT

    @property
    def fails_run(self) -> bool:
        """Whether the op is red: a failure that no limitation names, or a pass although a limitation names it."""
        return fails_run(self.status, self.expected)


def fails_run(status: str, expected: str) -> bool:
    """`OpTest.fails_run` for an op that ended with `status`; `expected` is that field of its record."""
    return (status in FAILED) is not bool(expected)


VOLATILE = frozenset(
    {
        *(name for name, measure in MEASURES.items() if measure.volatile),
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
        "left_behind",
        "outcomes",
        "canary",
        "hypothesis",
    }
)
"""Fields of OpTest that may differ between two equal runs (a hypothesis has a time limit, and times are measured)."""


class Origin(Record):
    """Where a run came from. Stored once per run and joined by key, so that no OpTest is ever half filled."""

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

    schema_version: Int = SCHEMA_VERSION
    run_id: Id
    models: tuple[str, ...]
    backend: str
    arch: str
    started: datetime
    ended: datetime | None = None
    outcome: str = "running"
    """`running`, `complete`, `interrupted`, `out_of_budget`; `partial`: merged from some of its shares."""
    origin: Origin


class Ledger(Record):
    """The counts that must add up (docs/architecture.md, "The counts")."""

    unique: Int
    by_status: dict[Status, Int]
    passed: Int = 0
    """Those that came through the last stage that their backend has, or that was asked for."""
    unsplittable: Int
    uses: dict[str, Int]
    """Per model: uses of unique ops, without unsplittable ones."""
    unsplittable_uses: dict[str, Int]
    structural: dict[str, Int]
    dead: dict[str, Int] = Field(default_factory=dict)
    """Per model: ops that no result of it needs; they are not run."""
    module_ops: dict[str, Int]
    stability: dict[str, Int] = Field(default_factory=dict)
    """Failures that were run again, by label. They are not part of the sum."""

    @property
    def adds_up(self) -> bool:
        """Whether every unique op has one status and every op of every module is accounted for."""
        ops = all(
            total == sum(part.get(m, 0) for part in (self.uses, self.unsplittable_uses, self.structural, self.dead))
            for m, total in self.module_ops.items()
        )
        return ops and self.unique == sum(self.by_status.values())
