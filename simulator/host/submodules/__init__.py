"""What modules of TT-Buda have besides the names of pybuda: `pybuda.verify`, `pybuda.transformers.pipeline`, ..."""
