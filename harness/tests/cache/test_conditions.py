"""What a run says that it ran under: what counts by the table of variables, no secret, no place."""

from __future__ import annotations

from opscope.harness.cache.conditions import conditions

OF_NO_RUN = {"processor", "instructions", "processors", "memory limit", "simulator", "goldens", "verdict rules"}


def test_variables_that_count_without_secrets_and_places() -> None:
    environment = {
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX --xla_dump_to=/tmp/x123/dump",
        "LD_PRELOAD": "/usr/lib/a/libjemalloc.so:/opt/libb.so",
        "OPENBLAS_CORETYPE": "Haswell",
        "HF_TOKEN": "hunter2",
        "JAX_COORDINATOR": "http://me:hunter2@host",
        "HF_HOME": "/home/me",
        "PYTHONPATH": "/a",
        "PYTHONUNBUFFERED": "1",
        "EDITOR": "vi",
    }
    found = conditions(("Haswell", "", "Haswell"), environment)
    assert {name: value for name, value in found.items() if name not in OF_NO_RUN} == {
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX --xla_dump_to=dump",
        "LD_PRELOAD": "libjemalloc.so:libb.so",
        "BLAS kernel": "Haswell",
        "OPENBLAS_CORETYPE": "Haswell",
        "JAX_COORDINATOR": "http://me:***@host",
    }
    assert set(found) >= OF_NO_RUN - {"memory limit", "instructions"}
