"""The module of a device image: compiled before, so that it only runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.queue_content import SAVED
from opscope.simulator.api import DeviceError
from opscope.simulator.host.compiled_module import LoadedModule
from opscope.simulator.host.errors import ImageError, PyBudaError
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.fitting import of_type
from opscope.simulator.host.hosted_program import HostedProgram
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.tensor import array_of
from opscope.simulator.host.tt_device_image import TTDeviceImage
from opscope.simulator.profile import Profile


class ImageModule(Module):
    """What an image runs."""

    def __init__(self, image: TTDeviceImage) -> None:
        super().__init__(image.modules[0].name)
        self.image = image
        self.profile: Profile | None = None
        """The cost of its last run in another process, if that was asked for."""

    @property
    def hosted(self) -> HostedProgram:
        """Its program with the host's part. Raises PyBudaError for an image of training."""
        return self._loaded.hosted

    @property
    def _loaded(self) -> LoadedModule:
        if self.image.trains:
            self.refuse("an image of inference", "one of training; try run_training")
        return self.image.loaded[0]

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """Its parameters."""
        return self.image.parameters

    @property
    def saved(self) -> int:
        """How many of its last results are those of ops that `op_intermediates_to_save` named."""
        return sum(value.name.endswith(SAVED) for value in self.image.modules[0].results)

    def exported(self, inputs: Sequence[np.ndarray]) -> Exported:
        """Raises PyBudaError: an image is compiled already."""
        self.refuse("a module that is compiled", "an image, which has been; try TTDevice.load_image")

    def ordered(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Returns inputs by name in the image's order. Raises PyBudaError."""
        names = [value.name for value in self.image.modules[0].inputs]
        if sorted(names) != sorted(inputs):
            self.refuse(f"the inputs {', '.join(names)}", ", ".join(map(str, inputs)))
        return [inputs[name] for name in names]

    def fitting(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Returns one input of a microbatch in the types that the image takes. Raises PyBudaError."""
        wanted = [value for value in self.image.modules[0].inputs if value.role == "input"]
        if len(inputs) != len(wanted):
            self.refuse(f"{len(wanted)} inputs", str(len(inputs)))
        fits = []
        for number, (value, described) in enumerate(zip(inputs, wanted, strict=True)):
            array = array_of(value)
            if array.shape != described.shape:
                self.refuse(f"input {number} of shape {list(described.shape)}", str(list(array.shape)))
            name = host_dtype(described.element_type).name
            fits.append(of_type(f"{self.name}: input {number}", array, name))
        return fits

    def compute(self, inputs: Sequence[Any], parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns what the image computes of one input. Raises PyBudaError."""
        try:
            named = zip((value.name for value in self.image.modules[0].inputs), self.fitting(inputs), strict=True)
            return self._loaded.run({**self.values, **dict(named)})
        except (DeviceError, ImageError) as error:
            raise PyBudaError(f"{self.name}: {error}") from error
