"""From TensorFlow functions, SavedModels and GraphDefs to StableHLO by TensorFlow's own XLA bridge."""
