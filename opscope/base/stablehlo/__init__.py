"""What several rooms know of StableHLO: fields of its attributes, tensors of bounded size, how deep regions may lie."""
