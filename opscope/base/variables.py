"""Which environment variables a result may depend on: one table, of those that change nothing and those that native
code reads.

A name that ends in `*` stands for all that begin so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_OF_BUILDS = (
    *("BUILD_ID", "BUILD_NUMBER", "BUILD_TAG", "BUILD_URL", "BUILD_DISPLAY_NAME", "BUILD_CAUSE*", "BUILD_TIMESTAMP"),
    *("BUILD_USER*", "BUILD_BUILD*", "BUILD_SOURCE*", "BUILD_REASON", "BUILD_REPOSITORY_*", "BUILD_REQUESTEDFOR*"),
    *("BUILD_QUEUEDBY*", "BUILD_DEFINITION*", "BUILD_CONTAINERID", "BUILD_ARTIFACTSTAGINGDIRECTORY"),
    *("BUILD_BINARIESDIRECTORY", "BUILD_STAGINGDIRECTORY", "BUILD_SYNCSOURCES"),
    *("JOB_NAME", "JOB_BASE_NAME", "JOB_URL", "JOB_ID", "JOB_DISPLAY_URL"),
)
"""What Jenkins and Azure make anew for each job: others may name a variable `BUILD_TYPE`, and compute with it."""

HARMLESS = (
    # terminals, sessions, places
    *("TERM*", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR*", "LS_COLORS", "PAGER", "EDITOR"),
    *("VISUAL", "SHELL", "SHLVL", "PS1", "PROMPT_COMMAND", "PROMPT_DIRTRIM", "HIST*", "TMUX*", "STY", "WINDOWID"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_*", "XDG_RUNTIME_DIR", "XDG_SEAT*", "XDG_VTNR", "XDG_CURRENT_DESKTOP"),
    *("XDG_DATA_DIRS", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_MENU_PREFIX", "DBUS_*", "SSH_*"),
    *("GPG_*", "SUDO_*", "DESKTOP_*", "SESSION_MANAGER", "VSCODE_*", "GNOME_*", "KDE_*"),
    *("PWD", "OLDPWD", "HOME", "USER", "LOGNAME", "USERNAME", "MAIL", "HOSTNAME", "HOST", "_", "INVOCATION_ID"),
    *("TMPDIR", "TMP", "TEMP", "JOURNAL_STREAM", "MAKEFLAGS", "MAKELEVEL", "MAKEFILES", "MAKEOVERRIDES", "MAKE_TERM*"),
    *("MFLAGS", "DEBIAN_FRONTEND", "VIRTUAL_ENV*", "GIT_*"),
    # what CI systems make anew for each job
    *("CI", "CI_*", "GITHUB_*", "RUNNER_*", "ACTIONS_*", "BUILDKITE*", "GITLAB_*", "JENKINS_*", *_OF_BUILDS),
    *("CIRCLE*", "TRAVIS*", "AZURE_*", "SYSTEM_*", "AGENT_*", "TEAMCITY_*", "BITBUCKET_*", "DRONE*", "SEMAPHORE*"),
    *("EXECUTOR_NUMBER", "NODE_NAME", "WORKSPACE", "RUN_ID", "KUBERNETES_*", "SLURM_*", "CODEBUILD_*", "APPVEYOR*"),
    # ours, and what starts us
    *("DASK_*", "__DASK*"),
    *("OPSCOPE_*", "PYTEST_*", "COVERAGE_*", "COV_CORE_*", "PIP_*", "UV_*", "TOX_*", "NOX_*", "COMP_WORDBREAKS"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPYCACHEPREFIX", "PYTHONFAULTHANDLER"),
)
"""Variables that nobody computes with, and tokens (`is_secret`)."""

OF_NATIVE_CODE = (
    *("JAX_*", "XLA_*", "TORCH*", "PYTORCH_*", "KERAS_*", "HF_*", "TRANSFORMERS_*", "TF_*", "NPY_*", "OPENBLAS_*"),
    *(
        "MKL_*",
        "OMP_*",
        "KMP_*",
        "GOMP_*",
        "TT_*",
        "TTMLIR_*",
        "IREE_*",
        "LIBTPU_*",
        "PJRT_*",
        "TVM_*",
        "OV_*",
        "ORT_*",
    ),
    *("ATEN_*", "DNNL_*", "ONEDNN_*", "CUBLAS_*", "CUDNN_*", "MIOPEN_*", "HSA_*", "SYCL_*", "BLIS_*", "VECLIB_*"),
    *("NUMEXPR_*", "NUMBA_*", "TFLITE_*", "ONNX*", "ENABLE_PJRT*", "CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "TRITON_*"),
    *("LD_*", "PYTHON*", "GLIBC_*"),
    *("MALLOC_*", "LC_*", "LANG*", "TZ", "FAKETIME*"),
)
"""Variables that libraries read without Python's knowing."""


def variables_now() -> dict[str, str]:
    """The variables that are set. Another thread may take one away meanwhile, as pytest does at the end of each test:
    `dict(os.environ)` then raises KeyError."""
    return {name: value for name in os.environ if (value := os.environ.get(name)) is not None}


def is_one_of(name: str, table: Iterable[str]) -> bool:
    """Whether a variable is one of a table."""
    return any(name.startswith(row[:-1]) if row.endswith("*") else name == row for row in table)


def is_harmless(name: str) -> bool:
    """Whether nobody computes with a variable."""
    return is_one_of(name, HARMLESS) or is_secret(name)


def is_secret(name: str) -> bool:
    """Whether a variable's name says that it holds a secret."""
    return name.endswith(("_TOKEN", "_PASSWORD", "_SECRET", "_API_KEY", "_ACCESS_KEY", "_CREDENTIALS"))
