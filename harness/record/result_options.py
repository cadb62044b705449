"""The options that decide a result: one row each, carried whole from the command line to the record.

From a row follow its flag, environment variable, name in `[tool.opscope]` and help text (harness/settings/settings.py);
the keyword of `run_op_by_op`; what backends get (`Job.options`); the keys of kept verdicts; the line that runs an op
again; what `--resume`, `opscope merge` and a repro folder take from a run; the field of a record, with its column in
the database and that column's description; and the series of nights that a run belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self, cast, get_type_hints

from pydantic import BaseModel, BeforeValidator, Field

from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.masking import mask_secrets, masked
from opscope.harness.record.option_types import (
    BackendOptions,
    Count,
    DigestedFile,
    File,
    Flag,
    Integer,
    Mesh,
    Sizes,
    Text,
    absolute,
    choice,
    expects,
    one_of,
    without_folder,
)
from opscope.harness.record.stages import Stage
from opscope.harness.record.workflows import SPLIT, full_name, workflow

if TYPE_CHECKING:
    from opscope.harness.record.records import RunRecord

DTYPES = {"float32": "float32", "f32": "float32", "bfloat16": "bfloat16", "bf16": "bfloat16"}
"""The float types of a model, and their short names."""
INPUTS = ("captured", "random", "classes")
DRAWN = ("random", "classes")
"""Inputs that are drawn for each op alone: no op reads what another computed."""
FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")


class Decides(StrEnum):
    """What an option affects first, which determines the caches that depend on it."""

    COMPILATION = "compilation"
    """How a backend compiles a module. Part of the keys of kept verdicts and of programs taken apart."""
    CLIMB = "climb"
    """Which part of a model goes through which stages. Part of the keys of kept verdicts."""
    PROGRAM = "program"
    """The module and the values that it runs on. Part of the keys of exports, on which kept verdicts depend."""


@dataclass(frozen=True)
class Option:
    """The row of an option, apart from its type."""

    default: Any
    """Also None if the default follows from another option."""
    help: str
    """The line of `pytest --help`."""
    metavar: str
    """Placeholder for the value in the help text; empty if the flag takes no value."""
    decides: Decides
    column: str
    """Description of its column in the database and in data frames; empty if records do not have it."""
    series: bool
    """Whether runs that differ in it belong to different series of nights."""
    repeated: bool
    """Whether the flag may be given several times; the values are joined by commas."""
    more: str
    """The help text beyond its first line."""


def row(
    default: Any,
    help: str,
    metavar: str = "",
    decides: Decides = Decides.COMPILATION,
    *,
    column: str = "",
    series: bool = True,
    repeated: bool = False,
    more: str = "",
) -> Any:
    """The row of one option. If `default` is a function, it computes the default from the options above this one."""
    columns: dict[str, Any] = {
        "metavar": metavar,
        "decides": decides,
        "column": column,
        "series": series,
        "repeated": repeated,
        "more": more,
    }
    if callable(default):
        return Field(default_factory=default, description=help, json_schema_extra=columns)
    return Field(default, description=help, json_schema_extra=columns)


def _inputs(value: object) -> str:
    return absolute(value) if str(value).endswith(".npz") else choice(value, INPUTS)


def _fidelity(value: object) -> str:
    return next((name for name in FIDELITIES if name.lower() == str(value).lower()), "") or choice(value, FIDELITIES)


def _goldens_by(value: object) -> str:
    name, at, release = str(value).partition("@")
    return f"{name}{at}{absolute(release)}" if release.endswith(".whl") else str(value)


def _interpreters(value: object) -> str:
    words = [word.rpartition("=") for word in str(value).split(",") if word]
    return ",".join(f"{model}{named}{absolute(path)}" for model, named, path in words)


def _stage(value: object) -> str:
    from opscope.harness.record.depths import STAGES

    try:
        return str(STAGES.get(str(value)) or Stage(str(value)))
    except ValueError:
        raise InputError("", "the name of a stage", repr(value), closest(str(value), list(Stage))) from None


def _of_workflow(values: dict[str, Any]) -> str:
    return workflow(values["workflow"]).unsupported_types


Level = Annotated[int, one_of((0, 1, 2))]
Fidelity = Annotated[str, BeforeValidator(_fidelity)]
WorkflowName = Annotated[str, BeforeValidator(lambda value: full_name(str(value)))]
UnsupportedTypes = Annotated[str, one_of(("fail", "fallback"))]
Inputs = Annotated[str, BeforeValidator(_inputs)]
Interpreters = Annotated[str, BeforeValidator(_interpreters)]
GoldensBy = Annotated[str, BeforeValidator(_goldens_by)]
TorchBy = Annotated[str, one_of(("torchax", "torch-mlir"))]
DType = Annotated[str, one_of(DTYPES)]
NumericsName = Annotated[str, one_of(("hifi4", "ttnn"))]
Repeat = Annotated[Count, expects("a whole number from 1 on", "2"), Field(ge=1)]
LastStage = Annotated[str, BeforeValidator(_stage)]


class ResultOptions(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """The options of a run that decide results, the same for each of its backends. A new option is one more row."""

    arch: Text = row(
        "n150",
        "Board (n150, e150, p150), or an arch.",
        "BOARD",
        column="the board that ops were compiled for",
        more="An arch means its default board.",
    )
    data_format: Text | None = row(
        None,
        "Number format in which the device computes floats.",
        "FORMAT",
        column="format in which the device computes floats",
        more="Default: the module's own types.",
    )
    math_fidelity: Fidelity | None = row(
        None,
        "Passes of the matrix unit: LoFi, HiFi2, 3 or 4.",
        "FIDELITY",
        column="passes of the matrix unit",
        more="LoFi, HiFi2, HiFi3 or HiFi4; default: the backend's own.",
    )
    numerics: NumericsName = row(
        "hifi4",
        "How ops compute by default: hifi4 or ttnn.",
        "WORD",
        column="how ops computed where nothing else was asked for: hifi4 or ttnn",
        more=(
            "hifi4: all bits, a Dst of 32 bits in the matrix unit; ttnn: what ttnn takes without a "
            "compute configuration. --math-fidelity goes before its fidelity."
        ),
    )
    exact_order: Flag = row(
        False,
        "Compute in the steps of ttnn's kernels (slow).",
        column="whether ops were computed in the steps of ttnn's own kernels",
        more="Products, sums, functions, softmax and norms.",
    )
    workflow: WorkflowName = row(
        SPLIT,
        "What runs: split, full, windows:N, patterns, ...",
        "WORD",
        Decides.CLIMB,
        column="what was taken through the stages",
        more=(
            "split: each op by itself, as with --op-by-op; full: the model as one program, every value "
            "compared; windows:N: each op with the N - 1 producers before it; patterns: what compilers "
            "fuse; layers: each numbered scope of its source; compile-split: each op of the compiled "
            "program; split-compile-split: each op, compiled by itself, and each op of that program."
        ),
    )
    unsupported_types: UnsupportedTypes = row(
        _of_workflow,
        "Types the device lacks: fail, or fallback.",
        "WORD",
        series=False,
        more=(
            "Refuse ops of such types (f64, i64), or compute them on the host; default: fail for single "
            "ops, fallback for whole models."
        ),
    )
    optimization_level: Level = row(
        0,
        "0: each op by itself; 1: fuse; 2: tensors in L1.",
        "N",
        column="what the compiler was asked to do beyond single ops: 0, 1 or 2",
        more="0: compile each op by itself; 1: fuse ops; 2: also keep tensors in L1.",
    )
    amp_level: Level = row(
        0,
        "Mixed precision of backend reference: 0, 1 or 2.",
        "N",
        column="mixed precision that was asked for: 0, 1 or 2",
        more="0: none; 1: products in Bfp8_b; 2: products in Bfp8, everything else in Float16.",
    )
    backend_option: BackendOptions | None = row(
        None,
        "An option of a backend's own compiler.",
        "[BACKEND:]NAME=VALUE",
        column="options of the backend's own compiler",
        repeated=True,
        more="With BACKEND: in front, of that one among several.",
    )
    system_desc: DigestedFile | None = row(
        None,
        "Backend tt: a descriptor (.ttsys) in place of --arch.",
        "FILE",
        column="file and digest of the system descriptor that replaced the board's",
        more="A system descriptor in place of that of --arch.",
    )
    inputs: Inputs = row(
        "captured",
        "Inputs of ops: captured, random, classes, or .npz.",
        "KIND|FILE",
        Decides.PROGRAM,
        more=(
            "captured: from the model; classes: what reaches each op's domain; an .npz file has values "
            "for the model's inputs, by name."
        ),
    )
    weights: File | None = row(
        None,
        "A .safetensors file with the model's weights.",
        "FILE",
        Decides.PROGRAM,
        series=False,
        more="Its tensors replace the seeded weights, by name.",
    )
    shape: Sizes | None = row(
        None,
        "A size that a model file leaves open: batch=4.",
        "NAME=SIZE",
        Decides.PROGRAM,
        column="sizes that open dimensions of the model were given",
        repeated=True,
        more=(
            "Of a named dimension (batch=4), or all sizes of an argument by name or number (arg0=4x16). "
            "Given several times or as a,b."
        ),
    )
    mesh: Mesh | None = row(
        None,
        "Split the model over a mesh of devices, such as 2x4.",
        "RxC",
        Decides.PROGRAM,
        column="mesh of devices that the model was split over",
        more="By its own shardings or those of its @model; the ops of each device's program run.",
    )
    seed: Integer = row(0, "Seed of weights and inputs.", "N", Decides.PROGRAM)
    export_python: Interpreters | None = row(
        None,
        "The interpreter that exports models.",
        "[MODEL=]PATH",
        Decides.PROGRAM,
        series=False,
        repeated=True,
        more=(
            "With the frameworks that it has: a path, or MODEL=PATH for models of that name (a glob). "
            "Given several times or as a,b; default: this one."
        ),
    )
    torch_by: TorchBy | None = row(
        None,
        "What exports PyTorch models: torchax or torch-mlir.",
        "DOOR",
        Decides.PROGRAM,
        series=False,
        more="Default: torchax, or torch-mlir where torchax is not made for the installed torch.",
    )
    goldens_by: GoldensBy | None = row(
        None,
        "The release of XLA that makes goldens.",
        "jaxlib@VERSION",
        Decides.PROGRAM,
        series=False,
        more="Such as jaxlib@0.10.2, in an environment of its own; default: the installed one.",
    )
    training: Flag = row(
        False,
        "Run the training step in place of the forward pass.",
        decides=Decides.PROGRAM,
        series=False,
        more="It is forward, backward and Adam.",
    )
    dead_ops: Flag = row(
        False,
        "Run also the ops that no result of a model needs.",
        decides=Decides.PROGRAM,
        series=False,
        more="Compilers drop such ops; without it they are counted apart, as dead.",
    )
    dtype: DType = row("float32", "Float type of the model: float32 or bfloat16.", "TYPE", Decides.PROGRAM)
    repeat: Repeat | None = row(
        None,
        "How often a passing op runs, to compare bits.",
        "N",
        Decides.CLIMB,
        series=False,
        more="In its lane; default: twice on xla, iree and cards, else once.",
    )
    batch_invariance: Flag = row(
        False,
        "Run rows of a batch alone too, to compare bits.",
        decides=Decides.CLIMB,
        series=False,
        more="Of passing ops with a batch: up to 8 rows, each compiled as a batch of one.",
    )
    until: LastStage | None = row(
        None,
        "Stop each op after this stage.",
        "STAGE",
        Decides.CLIMB,
        more="Or after this compile depth of backend buda; what passes it is right.",
    )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Picks the options out of other values, such as those of a stored run. Missing and None get the default."""
        return cls(**{name: values[name] for name in cls.model_fields if values.get(name) is not None})

    @classmethod
    def of_run(cls, record: RunRecord) -> Self:
        """The options that a stored run had."""
        return cls.of({**record.origin.options, "arch": record.arch})

    def changed(self, **values: Any) -> Self:
        """These options with other values for some; unlike `model_copy` it checks them."""
        return self.of({**self.model_dump(), **values})

    def values(self, *kinds: Decides) -> dict[str, Any]:
        """The options that decide such things, by name."""
        return {name: getattr(self, name) for name, option in OPTIONS.items() if option.decides in kinds}

    def decisive(self, *kinds: Decides) -> dict[str, Any]:
        """The same for keys: of a file with a digest the digest alone, since its place decides nothing."""
        values = self.values(*kinds)
        if values.get("system_desc") is not None:
            values["system_desc"] = values["system_desc"].rpartition("@")[2]
        return values

    def of_backend(self, label: str, alone: bool = True) -> dict[str, str]:
        """The values of --backend-option for one backend, by name: those that name it, and with `alone` those that
        name none. What names it wins."""
        values: dict[str, str] = {}
        for word in sorted((self.backend_option or "").split(","), key=lambda word: ":" in word.partition("=")[0]):
            scoped, _, value = word.partition("=")
            backend, _, name = scoped.rpartition(":")
            if name and (backend == label or (not backend and alone)):
                values[name] = value
        return values

    def recorded(self) -> dict[str, Any]:
        """The values of these options as records hold them."""
        values = {
            name: default if (value := getattr(self, name)) is None else masked(value)
            for name, (_, default) in record_fields().items()
        }
        if values["system_desc"]:
            values["system_desc"] = without_folder(values["system_desc"])
        return values

    def flags(self, usual: ResultOptions) -> list[str]:
        """The command-line words that set those options that differ from `usual`."""
        words: list[str] = []
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            if value is not None and value != getattr(usual, name):
                words += [flag(name), mask_secrets(str(value))] if option.metavar else [flag(name)]
        return words


OPTIONS: dict[str, Option] = {
    name: Option(
        None if field.default_factory is not None else field.default,
        field.description or "",
        **cast("dict[str, Any]", field.json_schema_extra),
    )
    for name, field in ResultOptions.model_fields.items()
}
"""The row of each option by its name."""


PROGRAM_OPTIONS = (
    "arch",
    "optimization_level",
    "backend_option",
    "shape",
    "inputs",
    "data_format",
    "math_fidelity",
    "numerics",
    "amp_level",
    "dtype",
)
"""The options with which commands that compare compilers name what they compare."""


def flag(name: str) -> str:
    """The command-line option of a setting."""
    return "--" + name.replace("_", "-")


def changed_words(options: Mapping[str, Any]) -> list[str]:
    """Those of PROGRAM_OPTIONS that are not as usual, as words of a command line."""
    usual = ResultOptions()
    given = {name: options.get(name) for name in PROGRAM_OPTIONS}
    changed = ((name, value) for name, value in given.items() if value not in (None, "", getattr(usual, name)))
    return [word for name, value in changed for word in (flag(name), str(value))]


@cache
def record_fields() -> dict[str, tuple[Any, Any]]:
    """The fields for options that every record has, with type and default. Older records take the default.

    A record holds what was once requested, so its types check no words; a text that was not given is empty.
    """
    types = get_type_hints(ResultOptions)
    fields: dict[str, tuple[Any, Any]] = {}
    for name, option in OPTIONS.items():
        if option.column:
            text = types[name] == str | None
            fields[name] = (str, "") if text else (types[name], option.default)
    return fields
