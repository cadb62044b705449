"""StableHLO's interpreter with real faults at chosen ops: `INJECT` names a JSON file, op id -> [stage, fault]."""

from __future__ import annotations

import json
import os
from importlib import util
from pathlib import Path

from opscope.harness.backends.base import Job
from opscope.harness.backends.stablehlo_interpreter import StablehloInterpreter
from opscope.harness.record.stages import Stage

_SPEC = util.spec_from_file_location("faulty_backend", Path(__file__).with_name("faulty.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
faulty = util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(faulty)


class Injector(StablehloInterpreter):
    """The interpreter, but for the ops that the plan names."""

    name = "injector"
    lasting = False

    def __init__(self) -> None:
        path = os.environ.get("INJECT", "")
        self._plan = json.loads(Path(path).read_text()) if path else {}

    def fingerprint(self) -> str:
        return "injector-1"

    def climb(self, stage: Stage, job: Job) -> None:
        at, fault = self._plan.get(job.op_id, ("", ""))
        overwrites = at == stage and fault == "overwrite"
        if at == stage and not overwrites:
            getattr(faulty.Faulty(), fault.replace("-", "_"))(job)
        super().climb(stage, job)
        if overwrites:
            job.inputs[0].reshape(-1)[:1] += 1
