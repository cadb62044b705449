import hashlib
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from jaxlib import xla_client

from opscope import Backend, BackendError, Job, Stage, StageError, Target


class PjrtPlugin(Backend):
    name = "pjrt_plugin"
    stages = (Stage.COMPILE, Stage.RUN)
    forkable = True

    def available(self):
        return None if "PJRT_PLUGIN" in os.environ else "export PJRT_PLUGIN=/path/to/plugin.so"

    def load(self):  # once a run: the library, and nothing that does not survive a fork
        file = Path(os.environ["PJRT_PLUGIN"])
        self.build = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()}
        xla_client.load_pjrt_plugin_dynamically("plugin", str(file))
        xla_client.initialize_pjrt_plugin("plugin")

    def target(self, options):
        return Target(card_type="host", float_format=None, math_fidelity="exact")

    def open(self, options):  # in each lane, with a TMPDIR of its own
        devices = xla_client.make_c_api_client("plugin", {}, None).devices()
        if not devices:
            raise BackendError("none", expected="a device that the plugin finds")

        class OneDevice(xla_client.SingleDeviceSharding):
            memory_kind, _device_assignment = None, tuple(devices[:1])
            _to_xla_hlo_sharding = lambda self, rank: xla_client.HloSharding.replicate()

        self.devices, self.sharding = xla_client.DeviceList(tuple(devices[:1])), OneDevice(devices[0])
        self.compile = devices[0].client.compile_and_load

    def versions(self):
        return self.build

    def fingerprint(self, options):
        return f"pjrt-{self.build}"

    def climb(self, stage, job: Job):
        try:
            if stage is Stage.COMPILE:
                job.state[stage] = self.compile(job.module, self.devices, xla_client.CompileOptions())
            else:
                job.ran_on, run = "host", job.state[Stage.COMPILE].execute_sharded
                shards = run([self.put(array) for array in job.inputs]).disassemble_into_single_device_arrays()
                job.outputs = [np.array(shard._single_device_array_to_np_array_did_copy()[0]) for [shard] in shards]
        except Exception as error:
            raise StageError(str(error).partition("\n")[0], str(error)) from error

    def put(self, array):
        kind = SimpleNamespace(shape=array.shape, dtype=array.dtype, weak_type=False)
        return xla_client.batched_device_put(kind, self.sharding, [array], [self.devices[0]], True, enable_x64=True)
