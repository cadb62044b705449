# ruff: noqa: I001
# As a tutorial of TT-Buda prints it, with a configuration in place of weights that would have to be downloaded.
# example1: sample way to run model
import pybuda
import torch
from transformers import BertModel, BertConfig

# Download the model from huggingface
torch.manual_seed(0)
model = BertModel(BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128))  # 1
model.eval()
# Wrap the pytorch model in a PyBuda module wrapper
module = pybuda.PyTorchModule("bert_encoder", model.encoder)  # 2
# Create a tenstorrent device
tt0 = pybuda.TTDevice(
    "tt0",
    module=module,
    arch=pybuda.BackendDevice.Wormhole_B0,
    devtype=pybuda.BackendType.Silicon,
)  # 3
# Create an input tensor
seq_len = 128
input = torch.randn(1, seq_len, model.config.hidden_size)
# Compile and run inference
output_queue = pybuda.run_inference(inputs=[input])  # 4
output = output_queue.get()
print(output)

# What follows is not printed there: the card's numbers are near PyTorch's.
expected = model.encoder(input)[0].detach()
correlation = torch.corrcoef(torch.stack([output[0].value().flatten(), expected.flatten()]))[0, 1]
print("correlation", float(correlation))
assert correlation > 0.99
