"""One or more cards, which the simulator plays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.compiler.api import Configuration
from opscope.compiler.target.device_files import write_runtime_params
from opscope.simulator.host import performance_trace, session
from opscope.simulator.host.argument_checks import count, listed, path_of
from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.compile_results import CompileResults, compile_results
from opscope.simulator.host.devices.cards import KINDS, cards, check_arguments
from opscope.simulator.host.devices.device import Device, arranged
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.fitting import fitting
from opscope.simulator.host.learning_rate_scheduler import LearningRateScheduler
from opscope.simulator.host.microbatch import joined, one_by_one
from opscope.simulator.host.modules.image_module import ImageModule
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_buda_module import PyBudaModule
from opscope.simulator.host.optimizers import Optimizer
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.settings.enumerations import BackendDevice, BackendType, DataFormat, DeviceMode
from opscope.simulator.host.settings.options import configuration, global_compiler_config, option
from opscope.simulator.host.tensor import Tensor, array_of, is_torch, to_torch
from opscope.simulator.host.training.compile_training import compiled_training, write_training_image
from opscope.simulator.host.training.part import sample_of
from opscope.simulator.host.training.steps import TrainingPart
from opscope.simulator.host.tt_device_image import TTDeviceImage
from opscope.simulator.host.write_image import write_image


class SimulatedSilicon(UserWarning):
    """A program asks for silicon, and gets the simulator."""


_said = False


class TTDevice(Device):
    """One or more Tenstorrent cards that run modules, here in the simulator.

    Without `arch` the cards are those that `detect_available_devices` finds: all of them, the first `num_chips`, or
    those of `chip_ids`. With `arch` nothing is detected: a program can be compiled for a card that is not there.
    """

    def __init__(
        self,
        name: str,
        num_chips: int | None = None,
        chip_ids: list[int] | list[tuple[int, ...]] | None = None,
        arch: BackendDevice | None = None,
        devtype: BackendType | None = None,
        device_mode: DeviceMode | None = None,
        optimizer: Any = None,
        scheduler: Any = None,
        fp32_fallback: DataFormat = DataFormat.Float16_b,
        mp_context: Any = None,
        module: Module | list[Module] | None = None,
    ) -> None:
        """`fp32_fallback` is the format in which the card holds floats. Raises PyBudaError, NoMeaningHere."""
        check_arguments(name, {what: value for what, value in locals().items() if what in KINDS})
        super().__init__(name, mp_context)
        self.optimizer: Optimizer | None = optimizer
        self.scheduler: LearningRateScheduler | None = scheduler
        self.training: TrainingPart | None = None
        """Its part of the training that goes on, if any."""
        self.programs: dict[str, CardProgram] = {}
        """The compiled passes of that training, by kind."""
        self.devtype = devtype or BackendType.Silicon
        self.device_mode = device_mode or DeviceMode.CompileAndRun
        self.fp32_fallback = fp32_fallback
        try:
            self.arch, self.chip_ids, self.board = cards(name, num_chips, chip_ids, arch)
        except PyBudaError:
            session.remove_device(self)
            raise
        self.compiled: list[CardProgram] = []
        self.trace = False
        """Whether runs are traced whatever the options say."""
        self._subgraph: int | None = None
        if self.devtype is BackendType.Silicon:
            _say_once()
        if module is not None:
            self.place_module(module)

    # --- subgraphs

    def set_active_subgraph(self, subgraph_index: int) -> None:
        """Makes one of the placed modules the one that inputs go to and outputs come from; the others rest.

        Raises PyBudaError if there is no such module.
        """
        if not isinstance(subgraph_index, int) or not 0 <= subgraph_index < len(self.modules):
            self.refuse(f"a subgraph below {len(self.modules)}", repr(subgraph_index))
        self._subgraph = subgraph_index
        self.forget()

    def get_active_subgraph(self) -> int:
        """Returns the number of the active subgraph; 0 while none was set, which means all modules in a row."""
        return self._subgraph or 0

    @property
    def active(self) -> list[Module]:
        """The modules that run, in order."""
        return self.modules if self._subgraph is None else [self.modules[self._subgraph]]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ids of the chips; chips that are given by coordinates are numbered in their order."""
        return tuple(chip if isinstance(chip, int) else number for number, chip in enumerate(self.chip_ids))

    # --- compiling

    def compile_options(self) -> Configuration:
        """Returns the compile options, with `fp32_fallback` as the format of floats where no option names one."""
        config = configuration()
        if config.get("default_df_override") is None and self.fp32_fallback is not DataFormat.Float16_b:
            config.set_configuration_options(default_df_override=self.fp32_fallback.name)
        config.skip_missing_ops = not all(isinstance(module, PyBudaModule) for module in self.active)
        return config

    def compile_modules(self, inputs: Sequence[np.ndarray]) -> None:
        """Compiles the modules for one input like these, unless that has been done. Raises PyBudaError."""
        if self.compiled:
            return
        if not self.modules:
            self.refuse("a module", "none; try place_module")
        if any(isinstance(module, ImageModule) for module in self.modules):
            return
        if self.device_mode is DeviceMode.RunOnly:
            self.refuse("an image, as its mode is RunOnly", "a module; try load_image")
        compiled: list[CardProgram] = []
        passed = list(inputs)
        config = self.compile_options()
        for number, module in enumerate(self.active):
            exported = module.exported(passed)
            own = config.copy()
            own.input_names = module.names_of_inputs(len(exported.inputs))
            made = CardProgram(exported, self.board, own, self.numbers, microbatch=max(self.microbatch, 1))
            compiled.append(made)
            if number + 1 < len(self.active):
                passed = [np.zeros(shape, made.result_type(kind)) for _, shape, kind in made.outputs]
        self.compiled = compiled
        others = [device for device in session.session().devices if device.modules and device is not self]
        self.write_files(compiled, config, alone=len(compiled) == 1 and not others)

    def write_files(self, programs: Sequence[CardProgram], config: Configuration, alone: bool = False) -> None:
        """Writes what options ask for of compiled programs: the back end's output, and runtime parameters.

        The output of a program that is the pipeline's only one (`alone`) is in `backend_output_dir` itself, that of
        others in folders of their names. Raises PyBudaError.
        """
        params, folder = config.get("backend_runtime_params_path"), config.get("backend_output_dir")
        try:
            if params is not None and config.get("store_backend_db_to_yaml", False):
                board = config.device[0] or self.board
                write_runtime_params(Path(params), board, self.numbers, config.harvested(len(self.numbers)))
            for program in programs if folder is not None else ():
                program.write_backend_output(Path(str(folder)), "" if alone else f"{program.exported.name}/")
        except OSError as error:
            self.refuse("a place to write", f"{error.filename}: {error.strerror}")

    def _write_trace(self, program: CardProgram, level: str) -> None:
        planned = program.compilation.program
        if program.profile is None or planned is None:
            return
        folder = Path(str(option("backend_output_dir", ".")))
        name = f"{self.name}_{program.exported.name}"
        try:
            performance_trace.write(folder, name, level, program.profile, planned.binary.plan)
        except OSError as error:
            self.refuse("a place to write", f"{error.filename}: {error.strerror}")

    def compile_for(  # type: ignore[override]
        self,
        inputs: tuple[Any, ...],
        compiler_cfg: Any,
        targets: list[Any] = [],
        microbatch_size: int = 0,
        microbatch_count: int = 1,
        verify_cfg: Any = None,
    ) -> tuple[Tensor, ...]:
        """Compiles the modules for one input like these; returns the outputs, without elements. Raises PyBudaError.

        A push brings `microbatch_size` of them, or one. With `targets` it compiles the passes of training, and the
        outputs are those of the loss module; `run_training` then begins with programs that are there. Options are the
        global ones, as in TT-Buda: `compiler_cfg` is None or what `_get_global_compiler_config` returns.
        """
        if compiler_cfg is not None and compiler_cfg is not global_compiler_config():
            self.refuse("the global compiler_cfg", f"{type(compiler_cfg).__name__}; try set_configuration_options")
        arrays, wanted = (
            sample_arrays(listed(f"{self.name}.compile_for: {what}", values, "tensors"))
            for what, values in (("inputs", inputs), ("targets", targets))
        )
        self.forget_first()
        self.settle_microbatch(arrays, max(1, count(f"{self.name}.compile_for: microbatch_size", microbatch_size, 0)))
        if wanted:
            first = next(device for device in session.session().devices if device.modules or device is self)
            part = compiled_training(
                self, [sample_of(v) for v in arrays], [sample_of(v) for v in wanted], first is not self
            )
            return tuple(Tensor(shape) for shape, _ in part.outputs)
        self.compile_modules(arrays)
        return tuple(Tensor(shape) for shape in self.output_shapes())

    @property
    def _compile_output(self) -> CompileResults | None:
        """What was compiled last, after a shutdown too: the netlist, written now, and the graph. None before."""
        programs = self.compiled or list(self.programs.values())
        if not programs:
            return None
        outputs = [Tensor(shape) for _, shape, _ in programs[-1 if self.compiled else 0].outputs]
        return compile_results(self.modules[0].get_name(), outputs, programs[0])

    def output_shapes(self) -> list[tuple[int, ...]]:
        """Returns the shapes of the outputs of what was compiled."""
        return [shape for _, shape, _ in self.compiled[-1].outputs]

    def generate_graph(
        self,
        *inputs: Any,
        target_tensors: list[Any] = [],
        return_intermediate: bool = False,
        graph_name: str = "default_graph",
        compiler_cfg: Any = None,
        trace_only: bool = False,
        verify_cfg: Any = None,
    ) -> tuple[Any, ...]:
        """Returns the Buda graph of the first module, the outputs, intermediates, the inputs, and a target.

        There are never intermediates and targets. Raises PyBudaError.
        """
        outputs = self.compile_for(inputs, compiler_cfg, target_tensors)
        return self.compiled[0].compilation.graph, outputs, {}, inputs, None

    def get_dram_io_queues(self, queue_type: str) -> tuple[list[Any], list[Any], list[tuple[int, ...]]]:
        """Returns the queues of a type: their plan, tile broadcasts (none are needed), and shapes. Raises PyBudaError.

        Types are `input`, `output`, `parameter` (parameters and constants).
        """
        if not self.compiled:
            self.refuse("a device that is compiled", "one that is not; try compile_for")
        program = self.compiled[0].compilation.program
        assert program is not None
        queues = program.binary.plan.queues
        inputs = [queue for queue in queues if queue.source == "HOST"]
        kinds = {
            "input": [queue for queue in inputs if queue.kind == "queue"],
            "parameter": [queue for queue in inputs if queue.kind == "ram"],
            "output": [queue for queue in queues if queue.name in program.graph.outputs],
        }
        if queue_type not in kinds:
            self.refuse(f"a type of {', '.join(kinds)}", repr(queue_type))
        tensors = program.binary.programs[0].tensors
        return kinds[queue_type], [], [tuple(tensors[queue.tensor].shape) for queue in kinds[queue_type]]

    def get_parameters(self, ignore_unused_parameters: bool = True) -> list[Parameter]:
        """Returns the parameters of its modules; of compiled ones only those that are read, unless asked for all."""
        unread: set[str] = set()
        for compiled in self.compiled if ignore_unused_parameters else ():
            arguments = compiled.compilation.entry.body.block.args
            named = zip(compiled.exported.arguments, arguments, strict=True)
            unread |= {spec.name for spec, value in named if not list(value.uses)}
        parameters = [parameter for module in self.modules for parameter in module.get_parameters()]
        return [parameter for parameter in parameters if parameter.get_name() not in unread]

    def generate(  # type: ignore[override]
        self, loop_count: int, write_index: int, tokens_per_iter: int, token_id: int
    ) -> list[Any]:
        """See `Device.generate`; one token per iteration, of number 0. Raises PyBudaError."""
        if tokens_per_iter != 1 or token_id != 0:
            self.refuse(
                "tokens_per_iter 1 and token_id 0, as no module here has past caches",
                f"{tokens_per_iter} and {token_id}",
            )
        return super().generate(loop_count, write_index)

    def forget(self) -> None:
        """Forgets what was compiled."""
        super().forget()
        self.compiled = []

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Raises PyBudaError for inputs that do not fit what was compiled, or before that what was pushed first."""
        arrays = [array_of(value) for value in inputs]
        if self.active and isinstance(self.active[0], ImageModule):
            self.settle_microbatch(arrays)
            self.active[0].fitting(self.first_of(arrays))
        elif self.compiled:
            fitting(self.name, self.first_of(arrays), self.compiled[0].exported.inputs)
        else:
            super().check_inputs(inputs)

    def settle_microbatch(self, inputs: Sequence[Any], size: int = 0) -> None:
        """Notes how many inputs a push brings, unless that is known: what an image says, `size`, or these inputs."""
        module = self.active[0] if self.active else None
        image = module.image.device.microbatch if isinstance(module, ImageModule) else 0
        super().settle_microbatch(inputs, image or size)

    # --- images

    def compile_to_image(
        self,
        *,
        img_path: str | Path | None = None,
        training: bool = False,
        sample_inputs: Any = (),
        sample_targets: Any = (),
        microbatch_count: int = 1,
    ) -> TTDeviceImage:
        """Compiles the module for inputs like `sample_inputs`, writes an image and returns it, read back and checked.

        The leading size of `sample_inputs` is that of the microbatch, whose inputs a card computes one by one.
        The card need not be there. With `training` the image holds forward, backward and optimizer with their weights
        and states, which `load_image` and `run_training` go on with; this needs an optimizer, a loss module and
        `sample_targets`. Raises PyBudaError, ImageError.
        """
        self.check_open("compile_to_image")
        path = path_of(f"{self.name}: img_path", img_path if img_path is not None else f"{self.name}.tti")
        inputs, targets = (
            arranged(self, one if isinstance(one, tuple | list) else (one,)) for one in (sample_inputs, sample_targets)
        )
        self.settle_microbatch(inputs)
        inputs, targets = self.first_of(inputs), self.first_of(targets)
        try:
            if training:
                samples = [[sample_of(value) for value in one] for one in (inputs, targets)]
                write_training_image(path, self, self.devtype.name, samples[0], samples[1], self.microbatch)
            else:
                self._write_image(path, inputs)
        except OSError as error:
            self.refuse("a place to write the image", f"{error.filename2 or error.filename}: {error.strerror}")
        return TTDeviceImage.load_from_disk(path)

    def _write_image(self, path: Path, inputs: Sequence[Any]) -> None:
        if len(self.active) != 1:
            self.refuse("one module in an image", f"{len(self.active)}")
        self.compile_modules([array_of(value) for value in inputs])
        program, module = self.compiled[0], self.active[0]
        write_image(
            path,
            [program.for_image(module.name)],
            program.values,
            device_name=self.name,
            devtype=self.devtype.name,
            microbatch=self.microbatch,
            sources=module.sources(),
        )

    @property
    def training_image(self) -> TTDeviceImage | None:
        """The image of training that it runs, if it does."""
        module = self.active[0] if self.active else None
        return module.image if isinstance(module, ImageModule) and module.image.trains else None

    @staticmethod
    def load_image(*, img: TTDeviceImage | None = None, img_path: str | Path | None = None) -> TTDevice:
        """Returns a device that runs an image, or the image of a file. Raises PyBudaError, ImageError."""
        if (img is None) == (img_path is None):
            raise PyBudaError("load_image: expected img or img_path, got both or neither")
        image = img if img is not None else TTDeviceImage.load_from_disk(img_path or "")
        if not isinstance(image, TTDeviceImage):
            raise PyBudaError(f"load_image: expected a TTDeviceImage, got {type(image).__name__}")
        described = image.device
        device = TTDevice(
            described.name,
            chip_ids=list(described.chip_ids),
            arch=BackendDevice.from_json(described.arch),
            devtype=BackendType.from_json(described.devtype),
            device_mode=DeviceMode.RunOnly,
        )
        device.place_module(ImageModule(image))
        return device

    # --- running

    def run_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the modules on a microbatch, one input after the other. Raises PyBudaError."""
        arrays = [array_of(value) for value in inputs]
        each = one_by_one(self.name, arrays, max(self.microbatch, 1))
        image = self.active[0] if self.active and isinstance(self.active[0], ImageModule) else None
        if image is not None:
            fits = [image.fitting(one) for one in each]
            made = joined([image.compute(one) if self.process is None else self.run_there(image, one) for one in fits])
            return session.without_saved(made, image.saved)
        self.compile_modules(each[0])
        if self.device_mode is DeviceMode.CompileOnly or self.devtype is BackendType.NoBackend:
            self.refuse("a device that runs", "CompileOnly or NoBackend; try DeviceMode.CompileAndRun")
        for module, compiled in zip(self.active, self.compiled, strict=True):
            compiled.follow(module.held_values())
            where, wanted, own = f"{self.name}: {module.name}", compiled.exported.inputs, len(compiled.outputs)
            made = [self._run(compiled, fitting(where, one, wanted)) for one in each]
            each = [results[:own] for results in made]
            tapped = session.without_saved(joined([results[own:] for results in made]), compiled.parts.saved)
            if isinstance(module, PyBudaModule):
                for key, value in zip(compiled.exported.taps, tapped, strict=True):
                    module.tapouts[key].put(value)
        return joined(each)

    def _run(self, program: CardProgram, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        level = option("performance_trace", "NONE")
        level = "LIGHT" if level == "NONE" and self.trace else level
        if self.process is None:
            results = program.run(inputs)
        else:
            results = self.run_there(program, inputs, profile=level != "NONE")
        if level != "NONE":
            self._write_trace(program, level)
        return results

    def get_parameter_checkpoint(self) -> dict[str, Tensor]:
        """Returns each parameter of its modules, by name; values are PyTorch's where the module holds PyTorch's."""
        values: dict[str, np.ndarray] = {}
        for module in self.modules:
            values |= {p.get_name(): array_of(p.value()).copy() for p in module.get_parameters()}
        for compiled in self.compiled:
            values |= {name: value.copy() for name, value in compiled.values.items()}
        if self.training is not None:
            values |= self.training.checkpoint()
        return self._as_held(values)

    def _as_held(self, values: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        """Returns arrays as tensors, of PyTorch where a module's parameter of that name is one of PyTorch's."""
        held = {p.get_name(): is_torch(p.value()) for module in self.modules for p in module.get_parameters()}
        otherwise = any(held.values())
        return {name: Tensor(to_torch(v) if held.get(name, otherwise) else v) for name, v in values.items()}

    get_all_parameters = get_parameter_checkpoint

    def update_parameters(self, parameters: dict[str, Any]) -> None:
        """Replaces parameters by name, in the modules and in what was compiled. Raises PyBudaError."""
        own = {parameter.get_name(): parameter for module in self.modules for parameter in module.get_parameters()}
        trained = self.training.checkpoint().keys() if self.training is not None else set()
        known = own.keys() | trained | {name for compiled in self.compiled for name in compiled.values}
        for name in parameters:
            if name not in known:
                self.refuse("a parameter of this device", repr(name))
        arrays = {name: array_of(value) for name, value in parameters.items()}
        for name, value in parameters.items():
            if name in own:
                own[name].set_value(value)
        for compiled in self.compiled:
            compiled.update({name: value for name, value in arrays.items() if name in compiled.values})
        if self.training is not None:
            self.training.update(arrays)

    def get_parameter_gradients(self) -> dict[str, Tensor]:
        """Returns the gradients so far of the parameters that it trains, by name. Raises PyBudaError."""
        return self._as_held(self._trained("get_parameter_gradients").gradients())

    def get_optimizer_params(self, is_buda: bool) -> dict[str, dict[str, np.ndarray]]:
        """Returns what its optimizer has for each parameter: `lr`, and what it keeps. Raises PyBudaError.

        `is_buda` makes no difference: shapes are the parameter's own.
        """
        return self._trained("get_optimizer_params").optimizer_state()

    def get_scheduler_params(self, is_buda: bool) -> dict[str, Any]:
        """Returns what its schedule reads of the optimizer; {} without a schedule."""
        return self.scheduler.get_scheduler_params() if self.scheduler is not None else {}

    def _trained(self, what: str) -> TrainingPart:
        if self.training is None:
            self.refuse(f"training before {what}", "none; try initialize_pipeline(training=True) and run_forward")
        return self.training

    def get_device_config(self, compiler_cfg: Any = None) -> dict[str, Any]:
        """Returns what is used: architecture, chips, board."""
        return {"arch": self.arch, "chip_ids": list(self.chip_ids), "board": self.board}


def sample_arrays(values: Sequence[Any]) -> list[np.ndarray]:
    """Returns tensors as arrays: zeros for those without elements."""
    filled = (np.zeros(v.shape, np.float32) if isinstance(v, Tensor) and not v.has_value() else v for v in values)
    return [array_of(value) for value in filled]


def _say_once() -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(
            "BackendType.Silicon is a simulated card here: no hardware is used", SimulatedSilicon, stacklevel=4
        )
