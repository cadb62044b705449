"""Every name of TT-Buda's Python API: where it is defined here, or why it is not."""

from __future__ import annotations

HOST = "opscope.simulator.host"

NAMES: dict[str, tuple[str, str]] = {
    # modules
    "Module": ("modules.module", "the base of all modules; `run` runs it on a card of its own"),
    "PyBudaModule": ("modules.py_buda_module", "a module in TT-Buda's ops, which JAX traces"),
    "PyTorchModule": ("modules.py_torch_module", "a `torch.nn.Module`, traced through torchax"),
    "TFModule": ("modules.tf_module", "a Keras model or a `tf.Module`, on a card too"),
    "TFGraphDefModule": ("modules.tf_graph_def_module", "a frozen TensorFlow graph"),
    "OnnxModule": ("modules.onnx_module", "an ONNX graph"),
    "JaxModule": ("modules.jax_module", "a JAX function, a bound Flax module or an Equinox module, without TensorFlow"),
    "TFLiteModule": ("modules.tflite_module", "a TFLite file"),
    "Parameter": ("parameter", "a weight; without a value one is drawn, seeded by its name"),
    "Tensor": ("tensor", "a tensor that goes in or out; `value()` is an array, or PyTorch's where PyTorch's went in"),
    # devices
    "Device": ("devices.device", "the base of all devices"),
    "TTDevice": ("devices.tt_device", "one or more cards, which the simulator plays"),
    "TTDeviceImage": ("tt_device_image", "a compiled module with its parameters in one file, which runs by itself"),
    "CPUDevice": ("devices.cpu_device", "the CPU: PyTorch modules as they are, others by XLA"),
    "detect_available_devices": ("devices.cards", "the chips of the cluster descriptor, else one configured board"),
    # runs
    "run_inference": ("run", "runs inputs through the pipeline; returns the queue of outputs"),
    "initialize_pipeline": ("run", "compiles the devices; `run_forward` then runs"),
    "run_forward": ("run", "runs inputs through the initialized pipeline"),
    "run_training": ("train", "trains the pipeline; returns the queue of checkpoints"),
    "run_backward": ("train", "runs microbatches backward through the initialized pipeline"),
    "run_optimizer": ("train", "updates the weights from the gradients so far"),
    "run_schedulers": ("train", "sets the next learning rates"),
    "get_loss_queue": ("train", "the losses of microbatches"),
    "get_parameter_checkpoint": ("run", "the values of parameters, by name"),
    "get_parameter_gradients": ("train", "the gradients so far, by name"),
    "update_device_parameters": ("run", "replaces parameters"),
    "run_generate": ("run", "runs inputs through the initialized pipeline; a module without past caches runs forward"),
    "run_generative_inference": ("run", "what `run_inference` does, without past caches"),
    "set_device_pipeline": ("run", "sets the order of devices"),
    "get_tenstorrent_device": ("run", "the first `TTDevice` of the program"),
    "get_intermediates_queue": (
        "run",
        "results of the ops that `op_intermediates_to_save` or `insert_tapout_queue_for_op` names",
    ),
    "sync": ("run", "waits until what was asked for has run"),
    "shutdown": ("run", "ends the run and forgets every device"),
    "pybuda_reset": ("run", "also forgets every option"),
    "is_silicon": ("run", "whether a kind of device is a real card: none is"),
    "error_raised": ("run", "whether the run has ended with an error"),
    # options
    "set_configuration_options": ("settings.options", "sets compile options for all devices that compile later"),
    "set_epoch_break": ("settings.options", "starts an epoch at ops, by name or predicate"),
    "set_chip_break": ("settings.options", "starts an epoch on the next chip at ops, by name or predicate"),
    "override_op_size": ("settings.options", "gives an op a grid of cores"),
    "configure_mixed_precision": ("settings.options", "formats and fidelity of ops, by type, name or epoch"),
    "insert_nop": ("settings.config_functions", "puts a copy between an op and ops that read it"),
    "insert_buffering_nop": ("settings.config_functions", "the older name of `insert_nop`"),
    "override_dram_queue_placement": ("settings.config_functions", "no effect: queues have one algorithm"),
    "pybuda_compile": ("submodules.compile", "compiles the modules of a device, and compares them with the CPU"),
    "CompileDepth": ("settings.compiler_config", "how far a device compiles"),
    "CompilerConfig": ("settings.compiler_config", "the compiler configuration, whose attributes are the options"),
    "k_dim": ("settings.config_functions", "the contracted dimension, of `insert_fracture_group`"),
    "BackendDevice": ("settings.enumerations", "an architecture"),
    "BackendType": ("settings.enumerations", "Silicon and Golden are the simulator; NoBackend compiles alone"),
    "DeviceMode": ("settings.enumerations", "whether a device compiles, runs, or both"),
    "DataFormat": ("settings.enumerations", "a number format"),
    "MathFidelity": ("settings.enumerations", "phases of the matrix unit"),
    "PerfTraceLevel": ("settings.enumerations", "how much a performance trace holds"),
    "DRAMPlacementAlgorithm": ("settings.enumerations", "how queues are spread over DRAM channels"),
    "VerifyConfig": ("settings.verify_config", "verifies outputs against XLA's by correlation"),
    # training
    "LearningRateScheduler": ("learning_rate_scheduler", "the base of a schedule"),
    "SGD": ("optimizers", "an optimizer"),
    "Adam": ("optimizers", "an optimizer"),
    "AdamW": ("optimizers", "an optimizer"),
    "LAMB": ("optimizers", "an optimizer"),
    "LARS": ("optimizers", "an optimizer"),
    # errors
    "PyBudaError": ("errors", "what every bad call raises"),
    "NoMeaningHere": ("errors", "a name or value without a meaning for a simulated card"),
    "DeviceDied": ("errors", "a device's process has ended; outputs of earlier inputs are in their queue"),
    "NotThereYet": ("errors", "a name that will have a meaning here"),
}
"""Name -> its module in `simulator/host`, and what it does here."""

PARTS = {"op": "op", "query": "query", "optimizers": "optimizers"}
"""Name of a module of pybuda -> its package here."""

FORMATS = (
    *("Float32", "Float16", "Float16_b", "Bfp8", "Bfp8_b", "Bfp4", "Bfp4_b", "Bfp2", "Bfp2_b", "Lf8"),
    *("UInt16", "Int8", "Int32", "RawUInt8", "RawUInt16", "RawUInt32"),
)
_CONFIG = "settings.config_functions"
_OP_REPO = (
    *("OperandNumInt", "OperandNumTuple", "OperandNumRange", "TensorShape", "OperatorParam", "OperatorParamNumber"),
    *("OperatorDefinition", "OperatorRepository", "ShapeCalculationContext"),
    *("pybuda_operator_repository", "pytorch_operator_repository"),
)
MODULES: dict[str, dict[str, str]] = {
    "config": {
        **dict.fromkeys(
            (
                "_get_global_compiler_config",
                "_clear_global_compiler_config",
                "_set_global_compiler_config",
                "_set_pybuda_override_veto",
                "_internal_insert_fj_buffering_nop",
                "override_t_stream_dir",
                "override_t_stream_shape",
                "override_u_kt",
                "override_dram_parameters",
                "override_input_buffer_multiplier",
                "internal_override_output_buffer_multiplier",
                "override_multi_op_fracture_factor",
                "override_op_placement",
                "add_cpu_fallback_ops",
                "remove_cpu_fallback_ops",
                "insert_fracture_group",
                "add_schedule_constraint",
                "set_num_repeated_patterns",
                "set_auto_transposing_placement",
                "get_harvesting_mask",
            ),
            _CONFIG,
        ),
    },
    "_C": {
        **dict.fromkeys(FORMATS, "settings.enumerations:DataFormat"),
        **dict.fromkeys(("LoFi", "HiFi2", "HiFi3", "HiFi4"), "settings.enumerations:MathFidelity"),
    },
    "_C.backend_api": {},
    "_C.balancer": {"OpOverride": "settings.compiler_config"},
    "_C.placer": {},
    "ci": dict.fromkeys(("enabled", "capture_tensors", "get_netlist_dir"), "submodules.ci"),
    "compile": {
        "LAST_SUCCESSFUL_STAGE": "submodules.tile",
        "CompileResults": "compile_results",
        "_get_global_compiler_config": _CONFIG,
    },
    "cpudevice": {},
    "device": {},
    "module": {},
    "parameter": {},
    "pybuda": {},
    "pybudaglobal": {"TILE_DIM": "submodules.tile", "align_up_tile": "submodules.tile", "get_devices": "run"},
    "run": {},
    "run.api": {},
    "run.commands": dict.fromkeys(("Command", "CommandType"), "devices.commands"),
    "run.impl": {},
    "schedulers": {},
    "tensor": {
        "TensorFromPytorch": "tensor:Tensor",
        "TensorFromTrace": "tensor:Tensor",
        "TensorShape": "tensor_shape",
        "to_pt_tensors": "tensor",
    },
    "torch_schedulers": {"TorchLearningRateScheduler": "submodules.torch_schedulers"},
    "transformers": {},
    "transformers.pipeline": {
        "pipeline": "submodules.transformers_pipeline",
        "NLPPipelineWrapper": "submodules.transformers_pipeline",
    },
    "tti": {},
    "tvm_to_python": dict.fromkeys(("compile_tvm_to_python", "generate_pybuda_module"), "submodules.tvm_to_python"),
    "op_repo": dict.fromkeys(_OP_REPO, "submodules.op_repo"),
    "op_repo.datatypes": dict.fromkeys(_OP_REPO, "submodules.op_repo"),
    "op.eval": dict.fromkeys(("calculate_pcc", "compare_tensor_to_golden"), "submodules.compare"),
    "op.eval.common": dict.fromkeys(("calculate_pcc", "compare_tensor_to_golden"), "submodules.compare"),
    "ttdevice": {"get_device_config": "submodules.device_config"},
    "torch_compile": {"reset_state": "run"},
    "utils": {
        **dict.fromkeys(("align_up_tile", "round_up_div"), "submodules.tile"),
        "get_pybuda_parameters_from_state_dict": "parameter",
    },
    "verify": {
        "TestKind": "settings.verify_config",
        **dict.fromkeys(("verify_module", "verify_module_pipeline"), "submodules.verify"),
    },
    "verify.backend": dict.fromkeys(("verify_module", "verify_module_pipeline"), "submodules.verify"),
    "verify.config": dict.fromkeys(("TestKind", "NebulaGalaxy", "_get_global_verify_config"), "settings.verify_config"),
}
"""Module of pybuda -> names that it has besides those of `pybuda` itself: their module here, or a class there."""

NO_MEANING = {
    "GPUDevice": "there is no GPU in a simulation; try CPUDevice",
    "TTCluster": "a TTDevice of several chips is what this would be; try num_chips",
    "MXNetModule": "MXNet has ended, and no version of it installs beside this project's Python",
    "compile_torch": "torch.compile would trace a second time what PyTorchModule traces; try PyTorchModule",
    "CompiledGraphState": "it is TT-Buda's own pickle; try TTDeviceImage",
    "TensorShape": "shapes are tuples here",
    "SomeTensor": "it is a name of types alone",
}
"""Name -> why it has no meaning here."""

NOT_YET: dict[str, str] = {}
"""Name -> what it waits for."""
