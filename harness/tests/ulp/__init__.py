"""Tests of sweeps over all inputs."""
