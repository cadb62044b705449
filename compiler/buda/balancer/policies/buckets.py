"""The sorting that NLP and CNN share: it puts an op's models in buckets by rows, speed and resident parameters."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.compiler.buda.balancer.op_model import OpModel

BUCKETS = {
    "best": "with the rows of cores that are wanted and room for the parameter in L1",
    "bad_rows": "of other rows of cores than are wanted, with room for the parameter in L1",
    "too_slow": "slower than the target, with room for the parameter in L1",
    "failed_prologue": "with the rows of cores that are wanted, the parameter read from DRAM",
    "bad_rows_failed_prologue": "of other rows of cores than are wanted, the parameter read from DRAM",
    "too_slow_failed_prologue": "slower than the target, the parameter read from DRAM",
}
"""What the models of each bucket have in common; the best first."""


@dataclass(frozen=True)
class Pick:
    """The model that was picked, and the bucket it came from."""

    model: OpModel
    bucket: str
    size: int
    """Models in that bucket."""

    def why(self, best: str, rows: int) -> str:
        """Why it was picked: `best` (slowest or fastest) of its bucket, where so many rows of cores were wanted."""
        among = "the only model" if self.size == 1 else f"{best} of the {self.size} models"
        return f"{among} {BUCKETS[self.bucket]} ({rows} wanted)"


def pick(models: tuple[OpModel, ...], target_rows: int, target_cycles: int | None, min_volume: int) -> Pick:
    """Returns the slowest model within the target in the best non-empty bucket; the fastest if all are too slow."""
    buckets: dict[str, list[OpModel]] = {}
    for model in models:
        buckets.setdefault(_bucket(model, target_rows, target_cycles, min_volume), []).append(model)
    bucket = next(name for name in BUCKETS if name in buckets)
    members = buckets[bucket]
    best = min if bucket.startswith("too_slow") else max
    return Pick(best(members, key=lambda m: m.cycles), bucket, len(members))


def _bucket(model: OpModel, target_rows: int, target_cycles: int | None, min_volume: int) -> str:
    resident = prologue_fits(model, min_volume)
    if target_cycles is not None and model.cycles > target_cycles:
        return "too_slow" if resident else "too_slow_failed_prologue"
    rows = "" if matches_rows(model, target_rows) else "bad_rows"
    if resident:
        return rows or "best"
    return f"{rows}_failed_prologue" if rows else "failed_prologue"


def matches_rows(model: OpModel, target_rows: int) -> bool:
    """Whether the grid has the wanted rows, or would have them when transposed, which is not done for matmuls."""
    rows = model.grid.r
    return target_rows in ((rows,) if model.spec.is_matmul else (rows, min(rows, model.grid.c)))


def prologue_fits(model: OpModel, min_volume: int) -> bool:
    """Whether a matmul holds its parameter in L1 if it should; ops without such a parameter always do."""
    if model.spec.type != "matmul" or (model.parameters[1] is None and model.dram[1] is None):
        return True
    return model.parameters[1] is not None and model.grid.volume >= min_volume
