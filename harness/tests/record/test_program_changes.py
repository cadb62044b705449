"""Programs as graphs: what says nothing of a program makes no difference, and what does is named with its counts."""

from __future__ import annotations

import pytest

from opscope.harness.record import program_graph
from opscope.harness.record.lowered_ir import plain
from opscope.harness.record.program_changes import changes, changes_of_texts
from opscope.harness.record.structure import structure_of

TYPE = "tensor<8x8xbf16, #layout>"
HEAD = """#dram = #ttnn.buffer_type<dram>
#l1 = #ttnn.buffer_type<l1>
#layout = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x1x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#sharded = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x1>, memref<1x1x!ttcore.tile<32x32, bf16>, #l1>, <width_sharded>>
"""
CONST = """  func.func private @main_const_eval_0(%arg0: T) -> (T, T) {
    %0 = "ttnn.get_device"() : () -> !ttnn.device
    %1 = "ttnn.full"(%0) <{fill_value = 1.0e-05 : f32}> : (!ttnn.device) -> T
    %2 = "ttnn.add"(%arg0, %1) : (T, T) -> T
    return %2, %1 : T, T
  }
"""
MAIN = """  func.func public @main(%arg0: T, %arg1: T, %arg2: T) -> T {
    %0:2 = ttcore.load_cached(@main_const_eval_0, [%arg2]) : (T) -> (T, T)
    %1 = "ttnn.typecast"(%arg0) <{dtype = #ttcore.supportedDataTypes<bf16>}> : (T) -> T
    %2 = "ttnn.permute"(%arg1) <{permutation = array<i64: 1, 0>, pad = 0.5 : f32}> : (T) -> T
    %3 = "ttnn.subtract"(%1, %2) : (T, T) -> T
    "ttnn.deallocate"(%1) <{force = false}> : (T) -> ()
    %4 = "ttnn.attention"(%3, %0#0, %0#1) <{scale = 0.25 : f32, causal = true}> : (T, T, T) -> T
    %5 = "ttnn.relu"(%4) : (T) -> T
    return %5 : T
  }
"""
DEAD = """  func.func private @dead_0(%arg0: T) -> T {
    %0 = "ttnn.neg"(%arg0) : (T) -> T
    return %0 : T
  }
  func.func private @dead_1(%arg0: T) -> T {
    %0 = call @dead_0(%arg0) : (T) -> T
    return %0 : T
  }
"""
"""A function that nobody calls, and one that none but it does."""
PROGRAM = HEAD + "module {\n" + (CONST + MAIN).replace("T", TYPE) + "}\n"


def edited(*pairs: tuple[str, str]) -> str:
    """The program with some texts replaced."""
    text = PROGRAM
    for before, now in pairs:
        before, now = before.replace("T", TYPE), now.replace("T", TYPE)
        assert before in text, before
        text = text.replace(before, now)
    return text


def moved(line: str, behind: str) -> str:
    """The program with the line that has one text moved behind the line with another."""
    lines = PROGRAM.splitlines()
    [taken] = [each for each in lines if line in each]
    lines.remove(taken)
    [place] = [number for number, each in enumerate(lines) if behind in each]
    return "\n".join([*lines[: place + 1], taken, *lines[place + 1 :]])


BENIGN = {
    "values renamed": edited(("%3", "%three"), ("%4", "%four")),
    "values renumbered": edited(("%5", "%6"), ("%4", "%5"), ("%3", "%4")),
    "locations": edited((' : (T, T) -> T\n    "ttnn.dea', ' : (T, T) -> T loc("a(b)":1:2)\n    "ttnn.dea')),
    "a comment": edited(("    %1 = ", "    // it's so\n    %1 = ")),
    "a comment behind": edited((" -> T\n    return %5", " -> T // so\n    return %5")),
    "independent ops exchanged": moved("ttnn.typecast", "ttnn.permute"),
    "a function renamed": edited(("@main_const_eval_0", "@ahead_7")),
    "a function's results in another order": edited(
        ("return %2, %1", "return %1, %2"), ("%3, %0#0, %0#1", "%3, %0#1, %0#0")
    ),
    "module and aliases named": edited(("module {", "module @a {"), ("#layout", "#ttnn_layout9"), ("#dram", "#where")),
    "attributes in another order": edited(
        ("permutation = array<i64: 1, 0>, pad = 0.5 : f32", "pad = 0.5 : f32, permutation = array<i64: 1, 0>")
    ),
    "a float written otherwise": edited(("1.0e-05", "9.99999974E-6"), ("0.25", "2.500000e-01")),
    "an attribute without a value": edited(("causal = true", "causal = true, empty = []")),
    "other blanks": "  " + PROGRAM.replace("\n", " \r\n\t ").replace(", ", ",  "),
    "a function that nobody calls": edited(("module {", "module {\n" + CONST.replace("@main_const_eval_0", "@never"))),
    "functions that dead functions call": edited(("module {", "module {\n" + DEAD)),
    "functions in another order": HEAD + "module {\n" + (MAIN + CONST).replace("T", TYPE) + "}\n",
    "memory freed elsewhere": moved("ttnn.deallocate", "ttnn.attention"),
}


@pytest.mark.parametrize("text", BENIGN.values(), ids=BENIGN)
def test_what_says_nothing_of_the_program_makes_no_difference(text: str) -> None:
    assert text != PROGRAM
    assert changes_of_texts(plain(PROGRAM), plain(text)) == []


def test_one_print_form_of_a_dictionary_is_another() -> None:
    one, other = (
        "%1 = util.buffer.constant " + form + ' : !util.buffer = "a"' for form in ("{a = 64 : index}", "<a = 64>")
    )
    assert program_graph.read(one).digest == program_graph.read(other).digest
    assert program_graph.read(one).digest != program_graph.read(one.replace("64", "32")).digest


@pytest.mark.parametrize(
    ("form", "wide"),
    [
        ('%0 = "x.full"() <{{value = {} : f64}}> : () -> tensor<8xf64>', True),
        ("%0 = stablehlo.constant dense<{}> : tensor<f64>", True),
        ("HloModule m\n\nENTRY %main () -> f64[] {{\n  ROOT %c = f64[] constant({})\n}}", True),
        ('%0 = "x.full"() <{{value = {} : f32}}> : () -> tensor<8xf32>', False),
        ("HloModule m\n\nENTRY %main () -> f32[] {{\n  ROOT %c = f32[] constant({})\n}}", False),
    ],
    ids=["mlir", "constant", "hlo", "mlir-32", "hlo-32"],
)
def test_a_double_differs_by_all_its_digits(form: str, wide: bool) -> None:
    one, near, same = (program_graph.read(form.format(value)).digest for value in ("0.1", "0.10000000001", "1.0e-01"))
    assert (one != near, one == same) == (wide, True)


TYPECAST = '    %1 = "ttnn.typecast"(%arg0) <{dtype = #ttcore.supportedDataTypes<bf16>}> : (T) -> T\n'
REAL = {
    "an op less": (edited((TYPECAST, ""), ("(%1, %2)", "(%arg0, %2)")), "ttnn.typecast -1", "ops"),
    "another op": (edited(("ttnn.relu", "ttnn.gelu")), "ttnn.gelu +1, ttnn.relu -1", "ops"),
    "a fused op": (
        edited(
            ('    %5 = "ttnn.relu"(%4) : (T) -> T\n', ""),
            ("return %5", "return %4"),
            ("= true", '= true, act = "relu"'),
        ),
        "ttnn.relu -1; act of ttnn.attention",
        "ops",
    ),
    "operands exchanged": (edited(("(%1, %2)", "(%2, %1)")), "operands of ttnn.subtract", "wiring"),
    "K for V": (edited(("%0#0, %0#1", "%0#1, %0#0")), "operands of ttnn.attention", "wiring"),
    "an argument": (edited(("%arg2: T)", "%arg2: T, %arg3: T)")), "uses of argument", "attributes"),
    "a constant": (edited(("1.0e-05", "1.0e-06")), "fill_value of ttnn.full", "const_eval"),
    "an attribute": (edited(("scale = 0.25", "scale = 0.5")), "scale of ttnn.attention", "attributes"),
    "a layout": (
        edited(
            (
                "<{scale = 0.25 : f32, causal = true}> : (T, T, T) -> T",
                "<{scale = 0.25 : f32, causal = true}> : (T, T, T) -> tensor<8x8xbf16, #sharded>",
            ),
            ('relu"(%4) : (T)', 'relu"(%4) : (tensor<8x8xbf16, #sharded>)'),
        ),
        "layout (dram interleaved -> l1 width_sharded) of ttnn.attention; types of ttnn.relu",
        "layout",
    ),
    "a type": (
        edited(
            (") -> T {", ") -> tensor<8x8xf32> {"),
            ("%4) : (T) -> T", "%4) : (T) -> tensor<8x8xf32>"),
            ("return %5 : T", "return %5 : tensor<8x8xf32>"),
        ),
        "types of ttnn.relu",
        "types",
    ),
    "out of const-eval": (
        edited(
            ('    %2 = "ttnn.add"(%arg0, %1) : (T, T) -> T\n    return %2, %1', "    return %arg0, %1"),
            ("%3, %0#0, %0#1", "%3, %9, %0#1"),
            ('    %1 = "ttnn.t', '    %9 = "ttnn.add"(%0#0, %0#1) : (T, T) -> T\n    %1 = "ttnn.t'),
        ),
        "place (const-eval) of ttnn.add",
        "const_eval",
    ),
}


@pytest.mark.parametrize(("text", "what", "kind"), REAL.values(), ids=REAL)
def test_a_difference_is_named(text: str, what: str, kind: str) -> None:
    old, new = plain(PROGRAM), plain(text)
    assert [(change.what, change.kind) for change in changes_of_texts(old, new)] == [(what, kind)]
    assert [change.kind for change in changes_of_texts(new, old)] == [kind]
    assert program_graph.read(old).digest != program_graph.read(new).digest


WRITTEN = """func.func @main(%cache: T, %other: T, %new: T) -> (T, T) {
  "ttnn.update_cache"(%cache, %new) : (T, T) -> ()
  "ttnn.write_tensor"(%new, %other) : (T, T) -> ()
  %0 = "ttnn.attention"(%cache, %new) : (T, T) -> T
  %1 = "ttnn.exp"(%new) : (T) -> T
  %2 = "ttnn.add"(%0, %other) : (T, T) -> T
  return %2, %1 : T, T
}""".replace("T", "tensor<8xf32>")
UPDATES, WRITES, READS, APART = WRITTEN.splitlines()[1:5]


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ((WRITES, UPDATES, READS, APART), []),
        ((APART, UPDATES, READS, WRITES), []),
        ((READS, UPDATES, WRITES, APART), ["operands of ttnn.attention"]),
        ((UPDATES, READS, APART), ["ttnn.write_tensor -1"]),
        ((UPDATES, WRITES, UPDATES, READS, APART), ["ttnn.update_cache +1"]),
    ],
    ids=["writes-to-two", "what-reads-neither", "read-before", "a-write-less", "a-write-more"],
)
def test_what_is_written_is_read_behind_it(order: tuple[str, ...], found: list[str]) -> None:
    text = WRITTEN.replace("\n".join((UPDATES, WRITES, READS, APART)), "\n".join(order))
    assert [change.what for change in changes_of_texts(WRITTEN, text)] == found
    assert [change.net for change in changes_of_texts(text, WRITTEN)] == [
        {name: -count for name, count in change.net.items()} for change in changes_of_texts(WRITTEN, text)
    ]


def chain(*names: str, times: int = 1) -> str:
    """A program of ops one after another, several times over."""
    lines, last = [], "%arg0"
    for number, name in enumerate(names * times):
        lines.append(f'    %{number} = "ttnn.{name}"({last}) : ({TYPE}) -> {TYPE}')
        last = f"%{number}"
    body = "\n".join(lines)
    return f"{HEAD}func.func @main(%arg0: {TYPE}) -> {TYPE} {{\n{body}\n    return {last} : {TYPE}\n}}"


def test_operands_of_two_types_that_are_exchanged_are_no_change_of_types() -> None:
    text = 'func.func @f(%a: A, %b: B) -> A {\n  %0 = "x.divide"(%a, %b) : (A, B) -> A\n  return %0 : A\n}'
    text = text.replace("A", "tensor<8xf32>").replace("B", "tensor<1xf32>")
    kinds = "(tensor<8xf32>, tensor<1xf32>)", "(tensor<1xf32>, tensor<8xf32>)"
    exchanged = text.replace("(%a, %b)", "(%b, %a)").replace(*kinds)
    assert [(each.what, each.kind) for each in changes_of_texts(text, exchanged)] == [
        ("operands of x.divide", "wiring")
    ]
    typed = text.replace("%b: tensor<1xf32>", "%b: tensor<1xbf16>").replace("tensor<1xf32>)", "tensor<1xbf16>)")
    assert "types of" in " ".join(each.what for each in changes_of_texts(text, typed))


def test_sites_that_are_alike_are_one_change_and_two_changes_are_two() -> None:
    old, new = chain("exp", "sum", "divide", "matmul", times=6), chain("softmax", "matmul", times=6)
    [change] = changes_of_texts(plain(old), plain(new))
    assert change.sites == 6
    assert change.net == {"ttnn.exp": -6, "ttnn.sum": -6, "ttnn.divide": -6, "ttnn.softmax": 6}
    both = chain("softmax", "matmul", times=6).replace("ttnn.matmul", "ttnn.linear", 1)
    assert {change.what: change.sites for change in changes_of_texts(plain(old), plain(both))}.keys() > set()
    twice = chain("exp", "neg", "abs", "sqrt", "tanh"), chain("exp", "abs", "sqrt", "sin")
    assert sorted(change.what for change in changes_of_texts(*map(plain, twice))) == [
        "ttnn.neg -1",
        "ttnn.sin +1, ttnn.tanh -1",
    ]


def test_changes_of_two_programs_are_alike_whatever_their_number() -> None:
    few, many = (
        changes_of_texts(
            plain(chain("typecast", "where", "add", times=times)), plain(chain("where", "add", times=times))
        )
        for times in (1, 5)
    )
    assert [change.alike for change in few] == [change.alike for change in many]
    assert [change.net for change in (*few, *many)] == [{"ttnn.typecast": -1}, {"ttnn.typecast": -5}]


HLO = """HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%fused (p0: f32[8], p1: f32[8]) -> f32[8] {
  %p0 = f32[8]{0} parameter(0)
  %p1 = f32[8]{0} parameter(1)
  %m.1 = f32[8]{0} multiply(%p0, %p1), metadata={op_name="a" stack_frame_id=3}
  ROOT %a.2 = f32[8]{0} add(%m.1, %p1)
}

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

ENTRY %main (a: f32[8], b: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %b = f32[8]{0} parameter(1)
  %c = f32[] constant(0.5)
  %f.7 = f32[8]{0} fusion(%a, /*index=1*/%b), kind=kLoop, calls=%fused, backend_config={"sizes":["4"],"kind":"x"}
  %r = f32[] reduce(%f.7, %c), dimensions={0}, to_apply=%sum
  %w = f32[8]{0} broadcast(%r), dimensions={}
  ROOT %d = f32[8]{0} subtract(%f.7, %w)
}
"""


def test_a_fusion_of_xla_is_what_it_holds() -> None:
    program = program_graph.read(plain(HLO))
    structure = structure_of(program, {}, 64)
    assert structure.ops == {"broadcast": 1, "constant": 1, "fusion kLoop": 1, "reduce": 1, "subtract": 1}
    assert structure.fused == {"add": 2, "multiply": 1}
    assert (structure.launches, structure.temp_bytes) == (4, 64)
    renamed = (
        HLO.replace("%f.7", "%other").replace("%fused", "%fused.9").replace("stack_frame_id=3", "stack_frame_id=4")
    )
    renamed = renamed.replace("/*index=1*/", "")
    assert changes_of_texts(plain(HLO), plain(renamed)) == []
    config = '{"sizes":["4"],"kind":"x"}'
    for form in ('{"kind": "x", "sizes": ["4"]}', '"{\\"kind\\":\\"x\\",\\"sizes\\":[\\"4\\"]}"'):
        assert changes_of_texts(plain(HLO), plain(HLO.replace(config, form))) == []
    unused = "%unused (q: f32[]) -> f32[] {\n  ROOT %q = f32[] parameter(0)\n}\n\nENTRY"
    assert changes_of_texts(plain(HLO), plain(HLO.replace("ENTRY", unused))) == []
    ordered = "constant(0.5)", "constant(0.5), control-predecessors={%f.7}"
    behind = HLO.replace("  %c = f32[] constant(0.5)\n", "").replace("  %r = ", "  %c = f32[] constant(0.5)\n  %r = ")
    behind = behind.replace(*ordered)
    assert changes_of_texts(plain(behind), plain(behind.replace("%f.7", "%other"))) == []
    assert changes_of_texts(plain(HLO), plain(behind)) != []
    for before, now, what in (
        ("add(%m.1, %p1)", "add(%m.1, %p0)", "computation of fusion kLoop"),
        ("multiply(%p0", "divide(%p0", "fused ops of fusion kLoop"),
        ("subtract(%f.7, %w)", "subtract(%w, %f.7)", "operands of subtract"),
        ("constant(0.5)", "constant(0.25)", "value of constant"),
        ('["4"]', '["2"]', "backend_config of fusion kLoop"),
        ("s = f32[] add", "s = f32[] maximum", "fused ops of reduce"),
    ):
        found = changes(program, program_graph.read(plain(HLO.replace(before, now))))
        assert (
            " + ".join(part.partition(" of ")[0] for change in found for part in change.what.split("; "))
            in (what.partition(" of ")[0])
        )
        assert found


def test_regions_belong_to_their_op() -> None:
    text = """func.func @main(%a: f32) -> f32 {
  %0 = "x.while"(%a) ({
  ^bb0(%b: f32):
    %1 = "x.lt"(%b) : (f32) -> i1
    "x.return"(%1) : (i1) -> ()
  }, {
  ^bb0(%b: f32):
    %1 = "x.exp"(%b) : (f32) -> f32
    %2 = "x.neg"(%1) : (f32) -> f32
    "x.return"(%2) : (f32) -> ()
  }) {unroll = 2 : i64} : (f32) -> f32
  return %0 : f32
}"""
    program = program_graph.read(text)
    assert {op.name: op.inside for op in program.computing}["x.exp"] == "x.while"
    [loop] = [op for op in program.ops if op.name == "x.while"]
    assert (loop.attributes, loop.results) == ((("unroll", "2 : i64"),), ("f32",))
    changed = text.replace("x.neg", "x.abs")
    assert [change.what for change in changes_of_texts(text, changed)] == ["x.abs +1, x.neg -1"]
    hoisted = text.replace('    %2 = "x.neg"(%1) : (f32) -> f32\n', "").replace('"x.return"(%2)', '"x.return"(%1)')
    hoisted = hoisted.replace("  return %0", '  %9 = "x.neg"(%0) : (f32) -> f32\n  return %9')
    assert [change.what for change in changes_of_texts(text, hoisted)]


def test_texts_of_no_known_language_are_compared_as_a_whole() -> None:
    assert [change.kind for change in changes_of_texts("a\nb", "a\nc")] == ["text"]
    assert changes_of_texts("a\nb", "a\nb") == []


PRICED = """func.func @main(%a: T, %b: T) -> T {
  %0 = "x.repeat"(%a) : (T) -> T
  %1 = "x.matmul"(%0, %b) <{activation = "silu"}> : (T, T) -> T
  %2 = "x.multiply"(%1, %b) <{input_activations = [#x.unary<op_type = gelu>]}> : (T, T) -> T
  %3 = "x.add"(%2, %1) : (T, T) -> T
  %4 = "x.add"(%3, %b) : (T, T) -> T
  return %4 : T
}
""".replace("T", "tensor<8xf32>")
CALLS = (("broadcast", 5), ("matmul", 100), ("silu", 7), ("gelu", 11), ("multiply", 20), ("add", 30), ("add", 40))


@pytest.mark.parametrize(
    ("before", "now", "calls", "price"),
    [
        ('"x.add"(%2, %1)', '"x.sub"(%2, %1)', (*CALLS[:5], ("sub", 33), ("add", 40)), 3),
        ("x.repeat", "x.tile", (("tile", 9), *CALLS[1:]), 4),
        (' <{activation = "silu"}>', "", (*CALLS[:2], *CALLS[3:]), -7),
        (" <{input_activations = [#x.unary<op_type = gelu>]}>", "", (*CALLS[:3], *CALLS[4:]), -11),
        ('"x.add"(%2, %1)', '"x.sub"(%2, %1)', (*CALLS[:5], *[("sub", 33)] * 2, ("add", 40)), None),
        ("x.repeat", "x.tile", (("a", 9), ("b", 9), *CALLS[1:]), None),
        ("x.repeat", "x.tile", (), None),
    ],
    ids=[
        "one-of-two",
        "kernel-of-another-name",
        "behind-its-op",
        "before-its-op",
        "a-loop",
        "not-known",
        "did-not-run",
    ],
)
def test_a_change_costs_what_its_own_ops_cost(
    before: str, now: str, calls: tuple[tuple[str, int], ...], price: int | None
) -> None:
    [change] = changes_of_texts(PRICED, PRICED.replace(before, now), (CALLS, calls))
    assert change.cycles == price
