"""Pass `tt-populate-argument-types`: marks the arguments of the entry that are parameters or constants.

Ops that depend only on those have the same results in every run (`const_eval_hoist_transform.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from opscope.compiler.dialects.ttcore import ArgumentTypeAttr
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.functions import functions
from opscope.compiler.options import ARGUMENT_TYPES

KEY = "ttcore.argument_type"
"""The attribute of an argument."""


@dataclass(frozen=True)
class TtPopulateArgumentTypes(ModulePass):
    """Marks arguments that `--argument-types`, `CompileOptions.argument_types` or tt-mlir's option declares as
    parameters; a convolution's batch norm is then folded into its weights and a bias."""

    name = "tt-populate-argument-types"
    argument_types: str = ""
    """`main=input,parameter,constant`: a word per argument; `main` also stands for the only public function."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place. Raises CompilerInputError for an unknown function or word, or a wrong count."""
        name, _, words = self.argument_types.partition("=")
        entries = [f for f in functions(op) if f.sym_visibility is None or f.sym_visibility.data != "private"]
        only = entries[0] if name == "main" and len(entries) == 1 else None
        func = next((f for f in functions(op) if f.sym_name.data == name), only)
        if func is None:
            known = ", ".join(f.sym_name.data for f in functions(op))
            raise CompilerInputError(
                f"argument types: expected FUNCTION=TYPE,..., got {self.argument_types!r}; try {known}="
            )
        types, count = words.split(","), len(func.body.blocks[0].args)
        if len(types) != count:
            raise CompilerInputError(f"argument types: expected {count} of @{name}, got {len(types)}")
        for word in types:
            if word not in ARGUMENT_TYPES:
                raise CompilerInputError(f"argument types: expected {', '.join(ARGUMENT_TYPES)}, got {word!r}")
        func.arg_attrs = ArrayAttr([DictionaryAttr({KEY: ArgumentTypeAttr.of(word)}) for word in types])


def constant_arguments(func: FuncOp) -> list[bool]:
    """Returns per argument whether it is a parameter or a constant."""
    count = len(func.body.blocks[0].args)
    if func.arg_attrs is None:
        return [False] * count
    kinds = [attrs.data.get(KEY) for attrs in func.arg_attrs.data]
    return [isinstance(word, ArgumentTypeAttr) and word.word.data != "input" for word in kinds]
