# As two tutorials of TT-Buda print it.
import pybuda
import torch
from pybuda import TTDevice, TTDeviceImage

device_img: TTDeviceImage = TTDeviceImage.load_from_disk("device_images/tt0.tti")
device_img.info()

img = TTDeviceImage.load_from_disk(img_path="device_images/tt0.tti")
device = TTDevice.load_image(img=img)
inputs = [torch.rand(shape) for shape in img.get_input_shapes()]  # create tensors using shape info from img
device.push_to_inputs(inputs)  # push newly created input activation tensors to device
output_q = pybuda.run_inference()

# What follows is not printed there.
(output,) = output_q.get()
assert output.shape == (1, 128, 128)
assert torch.isfinite(output.value()).all()
