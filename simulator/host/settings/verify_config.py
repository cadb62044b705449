"""What is verified of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.enumerations import BackendDevice, BackendType, DataFormat, DeviceMode
from opscope.simulator.host.settings.environment import GOLDEN_QUANTIZE, VERIFY_ALL
from opscope.simulator.host.settings.without_effect import say_once


class Unstated(float):
    """A limit that no program has set."""


RELATIVE_ATOL = Unstated(0.1)
"""Share of a golden's largest value by which a result may differ."""
NO_TVM = "models are traced by JAX, not by TVM"
NO_STAGES = "every pass is checked by the compiler's own tests"
UNUSED = {
    "graph_name": "a graph has the name of its module",
    "dump_tensors_path": "try op_intermediates_to_save",
    "run_golden": "the simulator is the golden",
    "run_net2pipe": "the compiler's own tests check its pipes",
    "verify_each_buda_pass": NO_STAGES,
    "verify_post_autograd_passes": NO_STAGES,
    "verify_post_placer": NO_STAGES,
    "verify_tvm_compile": NO_TVM,
    "verify_pybuda_codegen_vs_framework": NO_TVM,
    "scale_loss": "the CPU's loss is that of the card",
}
"""Arguments without effect, and why."""


class TestKind(Enum):
    """What `verify_module` runs."""

    __test__ = False  # no test of pytest's

    INFERENCE = 1
    TRAINING = 2
    TRAINING_RECOMPUTE = 3

    def is_training(self) -> bool:
        """Whether it is trained."""
        return self is not TestKind.INFERENCE

    def is_recompute(self) -> bool:
        """Whether the backward pass computes again what the forward pass had."""
        return self is TestKind.TRAINING_RECOMPUTE

    @classmethod
    def get(cls, training: bool, recompute: bool = False) -> TestKind:
        """Returns the kind of two flags."""
        if not training:
            return cls.INFERENCE
        return cls.TRAINING_RECOMPUTE if recompute else cls.TRAINING

    @classmethod
    def from_json(cls, text: str) -> TestKind:
        """Returns the kind of that name. Raises PyBudaError."""
        if text.upper() not in cls.__members__:
            raise PyBudaError(f"TestKind: expected {', '.join(cls.__members__)}, got {text!r}")
        return cls[text.upper()]


class NebulaGalaxy:
    """The card of 32 chips and their gateway."""

    chip_ids: ClassVar[list[int]] = list(range(33))


@dataclass
class VerifyConfig:
    """Verification of a run against XLA, which computes the module in float32.

    `pcc` is the smallest correlation of each result with XLA's. Without it nothing is compared, but with `verify_all`
    and by `verify_module`, which take 0.99. Where `rtol` or `atol` (by type), `relative_atol` (of the largest value) or
    `golden_compare_callback` is set, a result within them passes too. What only the formats of a Golden device lose
    passes with a warning, and without a `pcc` what those of another card lose within a tenth of the largest value,
    unless `golden_ignore_df_precision` is False. The arguments of `UNUSED` have no effect.
    """

    graph_name: str = "graph"
    enabled: bool = True
    intermediates: bool = True
    rtol: Any = field(default_factory=dict)
    atol: Any = field(default_factory=dict)
    relative_atol: float = RELATIVE_ATOL
    pcc: float | None = None
    dump_tensors_path: str = ""
    run_golden: bool = False
    run_net2pipe: bool = False
    golden_ignore_df_precision: bool = field(default_factory=lambda: GOLDEN_QUANTIZE not in os.environ)
    chip_ids: Any = None
    num_chips: int | None = None
    verify_each_buda_pass: bool = False
    golden_compare_callback: Callable[[Any, Any], bool] | None = None
    verify_tvm_compile: bool = False
    verify_pipeline_result_vs_framework: bool = False
    verify_pybuda_codegen_vs_framework: bool = False
    verify_all: bool = field(default_factory=lambda: os.environ.get(VERIFY_ALL) == "1")
    verify_last: bool = True
    verify_post_autograd_passes: bool = False
    verify_post_placer: bool = False
    waive_gradient_errors: Any = field(default_factory=set)
    sequential: bool = True
    test_kind: TestKind | str = TestKind.INFERENCE
    devtype: BackendType = BackendType.Golden
    devmode: DeviceMode = DeviceMode.CompileAndRun
    arch: BackendDevice | None = None
    scale_loss: float = 50.0
    optimizer: dict[str, Any] | None = None
    scheduler: dict[str, Any] | None = None
    epochs: int = 1
    steps: int = 1
    accumulation_steps: int = 1
    microbatch_count: int = 1
    epoch_breaks: list[str] = field(default_factory=list)
    fp32_fallback: DataFormat = DataFormat.Float16_b
    skip_shutdown: bool = False
    tti_path: str | None = None
    checkpoint_interval: int = 1
    enable_input_gradient_checking: bool = True
    enable_parameter_gradient_checking: bool = True

    def __post_init__(self) -> None:
        """Raises PyBudaError for a correlation that is no number, or a value of another kind."""
        pcc: object = self.pcc
        if pcc is not None and (isinstance(pcc, bool) or not isinstance(pcc, int | float)):
            raise PyBudaError(f"VerifyConfig: pcc: expected a number, such as 0.99, got {pcc!r}")
        kind: object = self.test_kind
        if isinstance(kind, str):
            self.test_kind = TestKind.from_json(kind)
        elif not isinstance(kind, TestKind):
            raise PyBudaError(f"VerifyConfig: test_kind: expected a TestKind, got {kind!r}"[:300])
        for name, wanted in (("arch", BackendDevice), ("devtype", BackendType), ("devmode", DeviceMode)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, wanted):
                raise PyBudaError(f"VerifyConfig: {name}: expected a pybuda.{wanted.__name__}, got {value!r}"[:300])
        for one in fields(self):
            default = one.default_factory() if callable(one.default_factory) else one.default
            if one.name in UNUSED and getattr(self, one.name) != default:
                say_once(f"VerifyConfig: {one.name}", UNUSED[one.name])

    @property
    def kind(self) -> TestKind:
        """What it verifies: `test_kind`, which may be a name."""
        return TestKind.from_json(self.test_kind) if isinstance(self.test_kind, str) else self.test_kind

    @property
    def compares(self) -> bool:
        """Whether a run's results are compared, for which the program has to ask."""
        asked = self.verify_all or self.verify_pipeline_result_vs_framework or self.states_tolerances
        return self.enabled and (self.pcc is not None or asked)

    @property
    def least(self) -> float:
        """The smallest correlation of a result that is compared."""
        return self.pcc if self.pcc is not None else 0.99

    @property
    def states_tolerances(self) -> bool:
        """Whether the program says how far apart elements may be, or compares by itself."""
        stated = self.rtol, self.atol, self.golden_compare_callback
        return any(stated) or not isinstance(self.relative_atol, Unstated)

    @classmethod
    def disabled(cls) -> VerifyConfig:
        """Returns one that verifies nothing."""
        return cls(enabled=False, verify_last=False, intermediates=False)

    def total_number_of_inputs(self) -> int:
        """Returns how many microbatches a run of it takes."""
        return self.epochs * self.steps * self.accumulation_steps * self.microbatch_count


def _get_global_verify_config() -> VerifyConfig:
    """Returns what a program that asks for no verification has."""
    return VerifyConfig()
