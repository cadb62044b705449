"""The shared xDSL Context, with every dialect of the compiler registered."""

from __future__ import annotations

from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func

from opscope.compiler.dialects import stablehlo, ttcore, ttir, ttnn
from opscope.compiler.dialects.load_cached import LoadCachedOp
from opscope.compiler.ops import families  # noqa: F401  (fills the table)
from opscope.compiler.ops.row import TABLE, OpRow


@cache
def context() -> Context:
    """Returns the shared Context; ops of rows that are registered later are added to it.

    It is shared because two contexts give different classes for equal unregistered ops.
    """
    ctx = Context(allow_unregistered=True)
    for dialect in (
        Builtin,
        Func,
        stablehlo.dialect("stablehlo"),
        stablehlo.dialect("chlo"),
        ttcore.TTCORE,
        ttir.dialect(),
        ttnn.dialect(),
    ):
        ctx.load_dialect(dialect)
    ctx.load_op(LoadCachedOp)

    loaded = {op.name for op in ctx.loaded_ops}

    def join(row: OpRow) -> None:
        for classes, key in (
            (stablehlo.CLASSES, row.stablehlo),
            (ttir.CLASSES, row.ttir),
            (ttnn.CLASSES, row.ttnn_name),
        ):
            cls = classes.get(key)
            if cls is not None and cls.name not in loaded:
                loaded.add(cls.name)
                ctx.load_op(cls)

    TABLE.listen(join)
    return ctx
