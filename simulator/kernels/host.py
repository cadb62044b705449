"""The kernel of host ops, which the host computes between two programs of the device."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.program import HostParams
from opscope.simulator.images import from_host, to_host
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of


@kernel("host_op", HostParams, unit="host", arity=(0, 1 << 16))
def host_op(images: Images, call: Call) -> Images:
    """The results of a StableHLO module, in IEEE and in the tensors' own types."""
    from opscope.simulator.host_ops import run

    module = params_of(call, HostParams).module
    arrays = [to_host(image, desc) for image, desc in zip(images, call.inputs, strict=True)]
    results = run(module, arrays)
    return [from_host(np.asarray(r), desc) for r, desc in zip(results, call.outputs, strict=True)]
