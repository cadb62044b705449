"""`lit compiler/tests/filecheck`, with opscope and filecheck on the PATH. tt-mlir's spellings work too."""

import tempfile

import lit.formats

config.name = "opscope"  # noqa: F821  (lit gives this file its `config`)
config.test_format = lit.formats.ShTest()  # noqa: F821
config.test_exec_root = tempfile.gettempdir() + "/opscope-lit"  # noqa: F821  (lit writes there, not beside the tests)
config.suffixes = [".mlir"]  # noqa: F821
config.substitutions += [  # noqa: F821
    ("ttmlir-opt", "opscope opt --custom-form"),
    ("FileCheck", "filecheck"),
    ("%system_desc_path%", ""),
]
