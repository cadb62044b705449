# As a tutorial of TT-Buda prints it, with a cluster of four chips, whose descriptor is the argument.
import sys

import pybuda
from pybuda import TTDevice

pybuda.set_configuration_options(backend_cluster_descriptor_path=sys.argv[1])
tt0 = TTDevice("tt0")  # num_chips=0
print(tt0.chip_ids)
pybuda.shutdown()
tt0 = TTDevice("tt0", num_chips=3)
print(tt0.chip_ids)
pybuda.shutdown()
tt0 = TTDevice("tt0", chip_ids=[0, 2, 3])
print(tt0.chip_ids)
