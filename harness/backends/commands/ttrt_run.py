"""Runs a TTNN flatbuffer on a card with given inputs: `python3 ttrt_run.py op.ttnn inputs.npz outputs.npz`.

`ttrt run` draws its inputs itself and keeps its results. This program passes the op's own inputs to ttrt's runtime
instead. It runs with the Python of tt-mlir's environment, so it imports nothing of opscope. It writes the results to
`outputs.npz` as arr_0 to arr_n, bfloat16 as 16-bit integers.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def run(flatbuffer: str, inputs: list[Any], numpy: Any) -> list[Any]:
    """Returns the results of program 0 as arrays. Raises what the runtime raises."""
    torch, runtime, util = (import_module(name) for name in ("torch", "ttrt.runtime", "ttrt.common.util"))
    logger = util.Logger("")
    binary = util.Binary(logger, util.FileManager(logger), flatbuffer)
    program, mesh = binary.get_program(0), binary.get_program(0).mesh_shape
    program.populate_inputs(lambda shape, dtype: torch.zeros(shape, dtype=dtype), [])
    program.populate_outputs(lambda shape, dtype: torch.zeros(shape, dtype=dtype))
    values = [_tensor(torch, array, like) for array, like in zip(inputs, program.input_tensors, strict=True)]
    runtime.set_compatible_device_runtime(binary.fbb)
    options = runtime.MeshDeviceOptions()
    options.mesh_shape = mesh
    device = runtime.open_mesh_device(options)
    try:
        device_inputs = util.convert_input_layouts(device, [util.create_tensor(v, mesh) for v in values], binary.fbb, 0)
        outputs = [util.create_tensor(tensor, mesh) for tensor in program.output_tensors]
        results = runtime.submit(device, binary.fbb, 0, device_inputs)
        runtime.wait(results)
        for output, result in zip(outputs, results, strict=True):
            runtime.memcpy(output, runtime.to_host(result, untilize=True)[0])
            runtime.deallocate_tensor(result, force=True)
    finally:
        runtime.close_mesh_device(device)
    return [_array(torch, tensor, numpy) for tensor in program.output_tensors]


def _tensor(torch: Any, array: Any, like: Any) -> Any:
    """Returns the array as a tensor of the type that the program takes; 16-bit integers hold the bits of bfloat16."""
    tensor = torch.from_numpy(array)
    if like.dtype == torch.bfloat16 and array.dtype.kind == "u":
        return tensor.view(torch.bfloat16).reshape(like.shape)
    return tensor.to(like.dtype).reshape(like.shape)


def _array(torch: Any, tensor: Any, numpy: Any) -> Any:
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else numpy.asarray(tensor)


def main(arguments: list[str]) -> None:
    """Entry point."""
    numpy = import_module("numpy")
    flatbuffer, input_files, output_file = arguments
    with numpy.load(input_files, allow_pickle=False) as stored:
        inputs = [stored[name] for name in stored.files]
    numpy.savez(output_file, *run(flatbuffer, inputs, numpy))


if __name__ == "__main__":
    main(sys.argv[1:])
