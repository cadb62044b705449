"""Training from a device image: its three programs, with the weights and states that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.models.arguments import ArgSpec
from opscope.simulator.errors import DeviceError
from opscope.simulator.host.errors import ImageError, PyBudaError
from opscope.simulator.host.training.passes import RATE, gradient, parameter
from opscope.simulator.host.training.steps import KINDS, OPTIMIZER, TrainingSteps

if TYPE_CHECKING:
    from opscope.simulator.host.compiled_module import LoadedModule
    from opscope.simulator.host.hosted_program import Sendable
    from opscope.simulator.host.processes.device_process import DeviceProcess
    from opscope.simulator.host.tt_device_image import TTDeviceImage
    from opscope.simulator.profile import Profile


class ImageHolder(Protocol):
    """What of a device is needed to run its image's passes where it runs."""

    process: DeviceProcess | None

    def run_there(self, program: Sendable, inputs: Sequence[np.ndarray], profile: bool = False) -> list[np.ndarray]:
        """Returns what its process computes."""
        ...


class ImagePass:
    """One pass as a device's process runs it: `values` are those of its arguments that stay, now."""

    def __init__(self, loaded: LoadedModule) -> None:
        self.hosted = loaded.hosted
        self.values: Mapping[str, np.ndarray] = {}
        self.profile: Profile | None = None


class ImageTraining(TrainingSteps):
    """The passes of an image. The image itself stays as it is."""

    def __init__(self, name: str, image: TTDeviceImage, device: ImageHolder) -> None:
        """Raises PyBudaError for an image without the three passes."""
        self._device = device
        self._there: dict[str, ImagePass] = {}
        self._loaded = {module.module.kind: module for module in image.loaded}
        if missing := [kind for kind in KINDS if kind not in self._loaded]:
            raise PyBudaError(f"{name}: expected an image of training, got one without {missing[0]}")
        start, end = parameter(""), gradient("")
        updated = [value.name for value in self._loaded[OPTIMIZER].module.arguments if value.name.startswith(end)]
        kept = {name for name in image.parameters if not name.startswith((start, end)) and name != RATE}
        super().__init__(
            name,
            {key: value for key, value in image.parameters.items() if key != RATE},
            [key.removeprefix(end) for key in updated],
            list(dict.fromkeys(key.rpartition(".")[2] for key in sorted(kept))),
            [ArgSpec(v.name, v.shape, host_dtype(v.element_type).name, "", "input") for v in image.modules[0].inputs],
            {
                kind: {v.name: (v.shape, host_dtype(v.element_type).name) for v in loaded.module.results}
                for kind, loaded in self._loaded.items()
            },
        )
        self._rate = float(image.parameters[RATE])

    @property
    def learning_rate(self) -> float:
        """That of the image."""
        return self._rate

    def run_pass(self, kind: str, values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Returns the results of a pass, in order, computed in the device's process if it has one.

        Raises PyBudaError, DeviceDied.
        """
        loaded = self._loaded[kind]
        if self._device.process is not None:
            one = self._there.setdefault(kind, ImagePass(loaded))
            one.values = {value.name: values[value.name] for value in loaded.module.kept}
            return self._device.run_there(one, [values[value.name] for value in loaded.module.inputs])
        try:
            return loaded.run({value.name: values[value.name] for value in loaded.module.arguments})
        except (DeviceError, ImageError) as error:
            raise PyBudaError(f"{self.name}: {kind}: {error}") from error


def roles(arguments: Sequence[str], inputs: int) -> list[tuple[str, str]]:
    """Returns the role that each argument of a pass has in an image; `inputs` of the forward pass are no targets."""

    def role(name: str) -> str:
        first, _, rest = name.partition(".")
        if first == "input":
            return "input" if int(rest) < inputs else "target"
        return {"parameter": "parameter", "gradient": "state", "state": "state", RATE: "state"}.get(first, "input")

    return [(name, role(name)) for name in arguments]
