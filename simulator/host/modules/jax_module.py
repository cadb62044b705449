"""JAX functions and modules as modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec, Built
from opscope.simulator.host.errors import in_one_line
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_buda_module import leaves, traced_type


class JaxModule(Module):
    """A callable that JAX can trace: a function, a bound Flax module, an Equinox module.

    Arrays that it holds are its parameters.
    """

    def __init__(self, name: str, module: Any) -> None:
        """Raises PyBudaError if `module` cannot be called."""
        super().__init__(name)
        if not callable(module):
            self.refuse("a callable of JAX arrays", type(module).__name__)
        self.module = module

    def exported(self, inputs: Sequence[np.ndarray]) -> Exported:
        """Traces the callable. Raises PyBudaError for whatever it raises."""
        import jax
        from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

        from opscope.models.frontends.jax import lower

        structs = [jax.ShapeDtypeStruct(x.shape, traced_type(x.dtype)) for x in inputs]
        with in_one_line(self.name):
            closed = jax.make_jaxpr(lambda *arrays: leaves(self.module(*arrays)))(*structs)
            constants = {f"constant_{i}": np.asarray(value) for i, value in enumerate(closed.consts)}
            specs = [ArgSpec(name, value.shape, value.dtype.name, "", "parameter") for name, value in constants.items()]
            taken = [ArgSpec(f"input_{i}", s.shape, s.dtype.name, "", "input") for i, s in enumerate(structs)]

            def forward(w: Mapping[str, Any]) -> list[Any]:
                filled = ClosedJaxpr(closed.jaxpr, [w[name] for name in constants])
                return list(jaxpr_as_fun(filled)(*(w[spec.name] for spec in taken)))

            arguments = (*specs, *taken)
            bytecode = lower(Built(forward, arguments), "forward")
        return Exported(self.name, bytecode, arguments, constants)
