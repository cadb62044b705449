"""The registry of custom calls: how the compiler treats each target that frameworks emit.

`hand_on`: its operands are its results. `lower`: a pattern in passes/stablehlo_to_ttir/custom_call.py lowers it.
`host`: only the host computes it, if `--unsupported-types=fallback` allows that. `never`: no compiler could, for the
reason. A target without a row is `notimpl`: a symbol of some other library.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Way = Literal["hand_on", "lower", "host", "never"]


@dataclass(frozen=True)
class Target:
    """One row."""

    pattern: str
    """Pattern (fnmatch) of `call_target_name`."""
    way: Way
    reason: str


_ANNOTATION = "an annotation that splits nothing here: a module sharded over several devices is refused before"
_PLACE = "says where a tensor lies, which the compiler decides"
_WIDE = "a LAPACK routine of 64-bit or complex numbers, which no register of the device holds"
_ITERATES = "a LAPACK routine that goes on until its values have converged: no kernel of the device does"
_PIVOTS = "a LAPACK routine that orders its work by what it finds: no kernel of the device exchanges rows or columns so"
_REFLECTS = "a LAPACK routine of Householder reflections, one column after another: no kernel of the device does that"
_SWEEPS = "a LAPACK routine that solves for one unknown after another: no kernel of the device does that"
_LAPACK = "a LAPACK routine, whose code is the host's"
_RUN_TIME = "its sizes are known at run time only: buffers and transfers are placed when a program is compiled"
_TPU = "a routine of XLA's TPU compiler, which only that has; export for the CPU, where it is LAPACK's"
_FOREIGN = "code of another device, which only that device runs"
TARGETS: tuple[Target, ...] = (
    Target("Sharding", "hand_on", _ANNOTATION),
    Target("SPMDFullToShardShape", "hand_on", _ANNOTATION),
    Target("SPMDShardToFullShape", "hand_on", _ANNOTATION),
    Target("xla.sdy.*", "hand_on", _ANNOTATION),
    Target("annotate_device_placement", "hand_on", _ANNOTATION),
    Target("MoveToDevice", "hand_on", _PLACE),
    Target("MoveToHost", "hand_on", _PLACE),
    Target("LayoutConstraint", "hand_on", _ANNOTATION),
    Target("stablehlo.shape_refinement_operand_wrapper", "hand_on", "what is left of a refined shape"),
    Target("shape_assertion", "hand_on", "a check of sizes that are constants by now"),
    Target("dce_sink", "hand_on", "keeps alive a value that nothing reads"),
    Target("tt.mark_argument", "hand_on", "names an argument and says what kind it is"),
    Target("tt.sharding_constraint", "hand_on", _ANNOTATION),
    Target("AllocateBuffer", "lower", "a tensor of any values: zeros"),
    Target("mhlo.topk", "lower", "topk along the last dim"),
    Target("TopK", "lower", "topk along the last dim"),
    Target("ApproxTopK", "lower", "topk, which is the exact answer to an approximate question"),
    Target("lapack_strsm*", "lower", "triangular_solve, by its flags"),
    Target("lapack_spotrf*", "lower", "cholesky, and from it where the matrix is not positive definite"),
    Target("lapack_[cdz]*", "host", _WIDE),
    Target("lapack_sgetrf*", "host", _PIVOTS),
    Target("lapack_sgeqp3*", "host", _PIVOTS),
    Target("lapack_sgeqrf*", "host", _REFLECTS),
    Target("lapack_sor[gm]qr*", "host", _REFLECTS),
    Target("lapack_sgehrd*", "host", _REFLECTS),
    Target("lapack_ssytrd*", "host", _REFLECTS),
    Target("lapack_ssyevd*", "host", _ITERATES),
    Target("lapack_sgesdd*", "host", _ITERATES),
    Target("lapack_sgesvd*", "host", _ITERATES),
    Target("lapack_sgeev*", "host", _ITERATES),
    Target("lapack_sgees*", "host", _ITERATES),
    Target("lapack_sgtsv*", "host", _SWEEPS),
    Target("lapack_*", "host", _LAPACK),
    Target("tridiagonal_solve_perturbed*", "host", _SWEEPS),
    Target("ducc_fft*", "host", "a transform of complex numbers, whose code is the host's"),
    Target("cpu_csr_sparse_dense*", "never", "a product by a sparse matrix, whose code is not in the module"),
    Target("*python*callback*", "never", "calls a Python function of the process that exported it"),
    Target("tf.call_tf_function", "never", "calls a TensorFlow function of the process that exported it"),
    Target("tf.*PyFunc*", "never", "calls a Python function of the process that exported it"),
    Target("stablehlo.dynamic_*", "never", _RUN_TIME),
    Target("ragged_all_to_all", "never", _RUN_TIME),
    Target("cu*", "never", _FOREIGN),
    Target("__cu*", "never", _FOREIGN),
    Target("hip*", "never", _FOREIGN),
    Target("*triton*", "never", _FOREIGN),
    Target("mosaic*", "never", _FOREIGN),
    Target("__gpu$*", "never", _FOREIGN),
    Target("__op$*", "never", _FOREIGN),
    Target("tpu_*", "never", _FOREIGN),
    Target("Qr", "never", _TPU),
    Target("Eigh", "never", _TPU),
    Target("LuDecomposition", "never", _TPU),
    Target("ProductOfElementaryHouseholderReflectors", "never", _TPU),
    Target("neon_*", "never", _FOREIGN),
)


def find(name: str) -> Target | None:
    """Returns the first row that matches a target; None if none does."""
    return next((row for row in TARGETS if fnmatchcase(name, row.pattern)), None)
