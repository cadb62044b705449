# As two tutorials of TT-Buda print it, with a module and inputs in place of the dots; the arguments say which variant.
import sys

import pybuda
import torch
from pybuda import BackendDevice, BackendType, TTDeviceImage


class Encoder(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights = pybuda.Parameter(128, 128)

    def forward(self, act, mask):
        return pybuda.op.Tanh("tanh", pybuda.op.Add("masked", pybuda.op.Matmul("matmul", act, self.weights), mask))


arch = BackendDevice[sys.argv[1]]
training = False
if "harvested" in sys.argv:
    pybuda.set_configuration_options(harvested_rows=[1, 11])  # manually harvest row 1 and 11
tt0 = pybuda.TTDevice(name="tt0", arch=arch, devtype=BackendType.Silicon)
tt0.place_module(Encoder("bert_encoder"))
device_img: TTDeviceImage = tt0.compile_to_image(
    img_path="device_images/tt0.tti",
    training=training,
    sample_inputs=(torch.rand(1, 128, 128), torch.rand(1, 1, 128)),
)
