"""The reference compiler: StableHLO to TTIR, TTNN and a flatbuffer that a device loads."""
