"""An op that several devices compute together as tt-mlir's plugin takes it: in Shardy's words, over a mesh by name."""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.collective_groups import REPLICAS, among_replicas, groups_in
from opscope.harness.prepare.mlir.door import to_bytecode
from opscope.harness.prepare.mlir.traversal import main_of, ops_in

MESH = "mesh"
PLACE, PLACE_OF_REPLICAS = "stablehlo.partition_id", "stablehlo.replica_id"


def over_mesh(module: bytes, sizes: tuple[int, ...]) -> bytes:
    """The module with each device's program as a manual computation over a mesh of these sizes.

    All tensors are declared to be whole on each device: the body is what each runs, on inputs of its own. A group of
    all devices lies along one axis, whatever the mesh. Raises ValueError for a module of another number of devices.
    """
    devices = math.prod(sizes)
    copy, _, _ = among_replicas(module, devices)
    if all(len(group) == devices for group in groups_in(copy)):
        sizes = (devices,)
    axes = {f"axis{at}": size for at, size in enumerate(sizes) if size > 1}
    main = main_of(copy)
    [block] = main.regions[0].blocks
    with copy.context, ir.Location.unknown():
        for op in ops_in(copy, PLACE_OF_REPLICAS):
            place = ir.Operation.create(PLACE, results=[op.results[0].type], ip=ir.InsertionPoint(op), loc=op.location)
            op.results[0].replace_all_uses_with(place.results[0])
            op.erase()
        del copy.operation.attributes[REPLICAS]
        words = ", ".join(f'"{name}"={size}' for name, size in axes.items())
        quoted = ", ".join(f'"{name}"' for name in axes)
        ir.InsertionPoint.at_block_begin(copy.body).insert(ir.Operation.parse(f"sdy.mesh @{MESH} = <[{words}]>"))
        body = [view.operation for view in block.operations]
        end = body.pop()
        arguments, results = list(block.arguments), list(end.operands)
        manual = ir.Operation.create(
            "sdy.manual_computation",
            results=[value.type for value in results],
            operands=arguments,
            attributes={
                "in_shardings": _whole(arguments),
                "out_shardings": _whole(results),
                "manual_axes": ir.Attribute.parse(f"#sdy<manual_axes{{{quoted}}}>"),
            },
            regions=1,
            ip=ir.InsertionPoint(end),
        )
        inner = ir.Block.create_at_start(manual.regions[0], [argument.type for argument in arguments])
        for argument, inside in zip(arguments, inner.arguments, strict=True):
            argument.replace_all_uses_except(inside, manual)
        with ir.InsertionPoint(inner):
            back = ir.Operation.create("sdy.return", operands=results)
        for op in body:
            op.move_before(back)
        for at, result in enumerate(manual.results):
            end.operands[at] = result
        for key, values in (("arg_attrs", arguments), ("res_attrs", results)):
            main.attributes[key] = ir.ArrayAttr.get(
                [ir.DictAttr.get({"sdy.sharding": ir.Attribute.parse(f"#sdy.sharding{_dims(v)}")}) for v in values]
            )
    copy.operation.verify()
    return to_bytecode(copy)


def _dims(value: ir.Value) -> str:
    return f"<@{MESH}, [{', '.join(['{}'] * ir.RankedTensorType(value.type).rank)}]>"


def _whole(values: list[ir.Value]) -> ir.Attribute:
    return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(map(_dims, values))}]>")
