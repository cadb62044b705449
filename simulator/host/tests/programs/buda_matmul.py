# As a tutorial of TT-Buda prints it, old spellings included.
import pybuda
import pybuda.op
import torch
from pybuda import PyBudaModule, TTDevice


# Create a simple matmul transformation module
class BudaMatmul(PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights = pybuda.Parameter(1, 1, 32, 32, requires_grad=False)

    def forward(self, act):
        return pybuda.op.Matmul(self, "matmul", act, self.weights)


if __name__ == "__main__":
    tt0 = TTDevice("grayskull0")  # Create a Tensorrent device
    lin0 = BudaMatmul("matmul0")  # Instantiate the above model
    tt0.place_module(lin0)  # Place the model on TT device
    act = torch.rand(1, 1, 32, 32)  # Feed some random data to the device
    tt0.push_to_inputs(act)
    results = pybuda.run_inference(num_inputs=1, sequential=True)  # Run inference and collect the results

    # What follows is not printed there: the card's numbers are near PyTorch's.
    got = results.get()[0].value()
    assert torch.allclose(got, act @ torch.from_numpy(lin0.weights.value()), atol=0.05)
    print("near")
