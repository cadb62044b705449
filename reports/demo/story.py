"""What happens in the demo's thirty nights: models are added, the compiler learns ops, things break and are fixed.

Nights count from 0 to 29. Everything is drawn from the seed, the op's id and the name of the episode, so the same seed
gives the same story.
"""

from __future__ import annotations

import fnmatch
import hashlib
from dataclasses import dataclass

from opscope.harness.record.stages import Stage, Status
from opscope.reports.database.owners import Rule

NIGHTS = 30

ARRIVALS = {
    "mnist_mlp": 0,
    "resnet50": 0,
    "bert_base": 0,
    "vit_base": 0,
    "gpt2_small": 4,
    "mobilenet_v2": 8,
    "lstm_ptb": 12,
    "whisper_tiny_encoder": 18,
    "dlrm_reduced": 18,
}
"""Model -> the first night that runs it."""

ABSENT = {(9, "reference", "n150"): ("vit_base",), (15, "xla", "n150"): ("resnet50", "vit_base")}
"""(night, backend, board) -> models that are expected on that night but missing."""

AS_RECORDED = ("tt",)
"""Backends to whose ops nothing happens: all that their nights show was found with the real compiler, in one run."""

FORMAT_NIGHT = 29
"""The night on which some models ran in another number format too. Nothing happens to their ops either: the one that is
wrong in bf16 was found so."""

JAXLIB_BEFORE, JAXLIB_CHANGES = "0.10.1", 12
"""The jaxlib before the update, and the night of the update to the jaxlib of the recorded runs."""

STEP_NIGHT, STEP = 20, 1.35
"""From that night on the reference compiler takes longer by that factor."""


TTIR, TTNN, FLATBUFFER = Stage.STABLEHLO_TO_TTIR, Stage.TTIR_TO_TTNN, Stage.TTNN_TO_FLATBUFFER
COMPARE, COMPILE, RUN_FAILED, WRONG = Stage.COMPARE, Status.COMPILE_FAILED, Status.RUN_FAILED, Status.WRONG_RESULT

ERRORS = {
    "gather": "stablehlo.gather: expected a lowering, got none",
    "windows": "stablehlo.reduce_window: expected a lowering for a window with a body, got none",
    "loops": "while: expected a flat program, got a region of 14 ops",
    "slices": "ttir.slice_dynamic: expected start indices known at compile time, got operand 1",
    "big convolutions": "ttnn.conv2d: expected at most 1499136 bytes of L1 per core, got 2097152 for circular buffers",
    "big convolutions on p150": "ttnn.conv2d: expected a grid that divides 49 output rows, got 13 x 10",
    "a broken pass": "ttnn.permute: expected a tiled layout of rank 4, got row-major of rank 3",
    "another reason": "program 0, op 3: expected a buffer in DRAM, got one in L1",
    "a segfault": "the lane ended by signal SIGSEGV while it ran the op",
    "a hang": "expected an end within 120 s, got none",
    "last night, another reason": "ttnn.exp: expected a kernel for Float32 in SFPU mode, got Bfp8_b",
    "wrong numbers": "result 0: wrong by 0.124 at (0, 2): 0.848 instead of 0.724",
    "wrong numbers in few": "result 0: wrong by 0.338 at (1, 0): 1.045 instead of 0.707",
    "last night": "ttir.broadcast: expected dimensions in ascending order, got [2, 0]",
    "last night, tanh": "program 0, op 0: expected a kernel named `tanh`, got none in this build",
    "a race": "result 0: expected no NaN, got 3 of 4096",
    "xla": "result 0: wrong by 3.1e-06 at (0, 0): 0.500003 instead of 0.5",
}
"""Name of an episode -> the error of its ops."""


@dataclass(frozen=True)
class Episode:
    """Ops whose results differ from the recorded ones, from the night `first` to `last`."""

    name: str
    first: int
    last: int
    op: str
    """Pattern of the op's name."""
    share: float = 1.0
    """The share of the matching ops that the episode affects."""
    arch: str = "*"
    backend: str = "reference"
    status: Status | None = None
    """None if the status stays as recorded; the fields below still apply."""
    failed: Stage | None = None
    expected: str = ""
    crash: str | None = None
    pcc: float | None = None
    cycles: float = 1.0
    """Factor on the op's cycles."""
    flaky: bool = False
    odds: float = 1.0
    """Probability of the episode on each night."""

    @property
    def error(self) -> str:
        """What its ops say; empty if they do not fail."""
        return ERRORS.get(self.name, "")

    def takes(self, op_name: str, op_id: str, night: int, backend: str, arch: str, seed: int) -> bool:
        """Whether the episode affects an op on a night."""
        return (
            self.first <= night <= self.last
            and self.backend == backend
            and fnmatch.fnmatch(arch, self.arch)
            and fnmatch.fnmatch(op_name.partition(".")[2], self.op)
            and draw(seed, self.name, op_id) < self.share
            and draw(seed, self.name, op_id, night, arch) < self.odds
        )


def draw(*parts: object) -> float:
    """A number from 0 up to 1 that depends only on `parts`."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6]) / 2**48


EPISODES = (
    # Ops that the compiler learns, one after another.
    Episode("gather", 0, 6, "gather", status=COMPILE, failed=TTIR, expected="notyet: gather"),
    Episode("windows", 0, 10, "reduce_window", status=COMPILE, failed=TTIR),
    Episode("loops", 0, 16, "while", status=COMPILE, failed=FLATBUFFER),
    Episode("slices", 0, 13, "dynamic_*slice", share=0.8, status=COMPILE, failed=TTNN),
    Episode("big convolutions", 0, 14, "convolution", share=0.45, status=COMPILE, failed=TTNN),
    Episode("big convolutions on p150", 0, 28, "convolution", share=0.12, arch="p150", status=COMPILE, failed=TTNN),
    # Ops that break and are fixed.
    Episode("a broken pass", 21, 23, "transpose", share=0.5, status=COMPILE, failed=TTNN),
    Episode("another reason", 22, 23, "transpose", share=0.2, status=RUN_FAILED, failed=Stage.RUN),
    Episode(
        "a segfault", 10, 11, "dot_general", share=0.06, status=Status.CRASHED, failed=Stage.RUN, crash="signal SIGSEGV"
    ),
    Episode("a hang", 17, 18, "reduce", share=0.05, status=Status.TIMEOUT, failed=Stage.RUN),
    Episode("last night, another reason", 29, 29, "exponential", share=0.3, status=COMPILE, failed=FLATBUFFER),
    Episode("wrong numbers", 26, 29, "exponential", share=0.6, status=WRONG, failed=COMPARE, pcc=0.9312),
    Episode("wrong numbers in few", 13, 28, "rsqrt", share=0.4, arch="p150", status=WRONG, failed=COMPARE, pcc=0.871),
    Episode("last night", 29, 29, "broadcast_in_dim", share=0.14, status=COMPILE, failed=TTIR),
    Episode("last night, tanh", 29, 29, "tanh", share=0.7, status=RUN_FAILED, failed=Stage.RUN),
    # Ops that get worse but stay right.
    Episode("last night, less exact", 29, 29, "reduce", share=0.4, pcc=0.99714),
    Episode("slower matmuls", 29, 29, "dot_general", share=0.4, cycles=1.31),
    Episode("less exact", 24, 29, "dot_general", share=0.3, pcc=0.99871),
    Episode("slower reductions", 19, 25, "reduce", share=0.5, cycles=1.22),
    Episode("faster convolutions", 16, 29, "convolution", share=0.7, cycles=0.81),
    # Ops that work on some nights only.
    Episode("a race", 2, 29, "reduce", share=0.2, odds=0.25, flaky=True, status=WRONG, failed=COMPARE, pcc=0.52),
    # The other backend (xla): a compiler with failures of its own.
    Episode("xla", 22, 29, "convolution", share=0.1, backend="xla", status=WRONG, failed=COMPARE, pcc=0.9921),
)
"""The first episode that affects an op decides."""

OWNERS = (
    Rule("convolutions", op="stablehlo.convolution"),
    Rule("lowering", stage=TTIR),
    Rule("layouts", stage=TTNN),
    Rule("binary", stage=FLATBUFFER),
    Rule("kernels", stage=Stage.RUN),
    Rule("numerics", stage=Stage.COMPARE),
    Rule("triage"),
)
"""Owners of the failures in the story: every failure has one, and triage has results that are right but worse."""


def episode(op_name: str, op_id: str, night: int, backend: str, arch: str, seed: int) -> Episode | None:
    """Returns the episode that affects an op on a night; None if the op behaves as recorded."""
    return next(
        (candidate for candidate in EPISODES if candidate.takes(op_name, op_id, night, backend, arch, seed)), None
    )
