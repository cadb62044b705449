"""Hand-written StableHLO modules, one per thing that a splitter can get wrong."""

from __future__ import annotations

RUNNABLE: dict[str, str] = {
    "composite_with_version_and_nested_decomposition": """
        func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %0 = stablehlo.composite "own.twice" %x {composite_attributes = {eps = 1.0e-5 : f32},
                 decomposition = @impl_1, version = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>
          %1 = stablehlo.composite "own.twice" %y {composite_attributes = {eps = 1.0e-5 : f32},
                 decomposition = @impl_2, version = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>
          return %0, %1 : tensor<4xf32>, tensor<4xf32>
        }
        func.func private @impl_1(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = func.call @deep_1(%x) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func private @impl_2(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = func.call @deep_2(%x) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func private @deep_1(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.add %x, %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func private @deep_2(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.add %x, %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }""",
    "while_captures_inside_nested_if_and_calls": """
        func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %n: tensor<i32>) -> (tensor<i32>, tensor<4xf32>) {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %half = stablehlo.constant dense<5.000000e-01> : tensor<f32>
          %halves = stablehlo.broadcast_in_dim %half, dims = [] : (tensor<f32>) -> tensor<4xf32>
          %r:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xf32>
          cond {
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %odd = stablehlo.and %i, %one : tensor<i32>
            %is = stablehlo.compare EQ, %odd, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %next = "stablehlo.if"(%is) ({
              %s = stablehlo.add %acc, %y : tensor<4xf32>
              %d = stablehlo.multiply %s, %halves : tensor<4xf32>
              stablehlo.return %d : tensor<4xf32>
            }, {
              %s = func.call @step(%acc) : (tensor<4xf32>) -> tensor<4xf32>
              stablehlo.return %s : tensor<4xf32>
            }) : (tensor<i1>) -> tensor<4xf32>
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
          }
          return %r#0, %r#1 : tensor<i32>, tensor<4xf32>
        }
        func.func private @step(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.sine %x : tensor<4xf32>
          %1 = func.call @again(%0) : (tensor<4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }
        func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.negate %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }""",
    "case_with_captures": """
        func.func @main(%k: tensor<i32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %r:2 = "stablehlo.case"(%k) ({
            stablehlo.return %x, %x : tensor<3xf32>, tensor<3xf32>
          }, {
            %0 = stablehlo.negate %x : tensor<3xf32>
            stablehlo.return %0, %x : tensor<3xf32>, tensor<3xf32>
          }) : (tensor<i32>) -> (tensor<3xf32>, tensor<3xf32>)
          return %r#0, %r#1 : tensor<3xf32>, tensor<3xf32>
        }""",
    "calls_walked_per_call_site": """
        func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %a:2 = func.call @swap(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
          %b:2 = func.call @swap(%a#0, %a#1) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
          return %b#0, %b#1 : tensor<3xf32>, tensor<3xf32>
        }
        func.func private @swap(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %0 = stablehlo.subtract %x, %y : tensor<3xf32>
          return %y, %0 : tensor<3xf32>, tensor<3xf32>
        }""",
    "variadic_reduce_and_sort": """
        func.func @main(%x: tensor<2x5xf32>, %i: tensor<2x5xi32>) -> (tensor<2xi32>, tensor<2x5xf32>, tensor<2x5xi32>) {
          %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %m:2 = "stablehlo.reduce"(%x, %i, %low, %zero) ({
            ^bb0(%a: tensor<f32>, %ai: tensor<i32>, %b: tensor<f32>, %bi: tensor<i32>):
              %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
              %w = stablehlo.select %c, %ai, %bi : tensor<i1>, tensor<i32>
              stablehlo.return %v, %w : tensor<f32>, tensor<i32>
          }) {dimensions = array<i64: 1>} : (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>)
             -> (tensor<2xf32>, tensor<2xi32>)
          %s:2 = "stablehlo.sort"(%x, %i) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>, %ai: tensor<i32>, %bi: tensor<i32>):
              %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
          }) {dimension = 1 : i64, is_stable = true} : (tensor<2x5xf32>, tensor<2x5xi32>)
             -> (tensor<2x5xf32>, tensor<2x5xi32>)
          return %m#1, %s#0, %s#1 : tensor<2xi32>, tensor<2x5xf32>, tensor<2x5xi32>
        }""",
    "chlo": """
        func.func @main(%x: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x3xf32>, tensor<2x3xi32>) {
          %0 = chlo.erf %x : tensor<2x6xf32> -> tensor<2x6xf32>
          %1, %2 = chlo.top_k(%x, k = 3) : tensor<2x6xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
          return %0, %1, %2 : tensor<2x6xf32>, tensor<2x3xf32>, tensor<2x3xi32>
        }""",
    "constants_of_every_kind": """
        func.func @main(%x: tensor<2xf32>, %h: tensor<2xbf16>, %z: tensor<2xcomplex<f32>>, %b: tensor<2xi1>)
            -> (tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>,
                tensor<2xi1>, tensor<3x2xf32>, tensor<f32>, tensor<2xi8>) {
          %dense = stablehlo.constant dense<[1.5, -2.25]> : tensor<2xf32>
          %splat = stablehlo.constant dense<3.0> : tensor<f32>
          %row = stablehlo.broadcast_in_dim %splat, dims = [] : (tensor<f32>) -> tensor<1x2xf32>
          %flat = stablehlo.reshape %row : (tensor<1x2xf32>) -> tensor<2xf32>
          %half = stablehlo.constant dense<[0.5, 0x7FC0]> : tensor<2xbf16>
          %cs = stablehlo.constant dense<(1.0, -2.0)> : tensor<2xcomplex<f32>>
          %cd = stablehlo.constant dense<[(1.0, -2.0), (0.5, 3.0)]> : tensor<2xcomplex<f32>>
          %bit = stablehlo.constant dense<true> : tensor<2xi1>
          %four = stablehlo.constant dense<[3, -4]> : tensor<2xi4>
          %edge = stablehlo.constant dense<-0.0> : tensor<f32>
          %0 = stablehlo.add %x, %dense : tensor<2xf32>
          %1 = stablehlo.multiply %flat, %x : tensor<2xf32>
          %2 = stablehlo.add %h, %half : tensor<2xbf16>
          %3 = stablehlo.multiply %z, %cs : tensor<2xcomplex<f32>>
          %4 = stablehlo.add %z, %cd : tensor<2xcomplex<f32>>
          %5 = stablehlo.and %b, %bit : tensor<2xi1>
          %6 = stablehlo.concatenate %row, %row, %row, dim = 0
               : (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
          %7 = stablehlo.add %splat, %edge : tensor<f32>
          %8 = stablehlo.convert %four : (tensor<2xi4>) -> tensor<2xi8>
          return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2xf32>, tensor<2xf32>, tensor<2xbf16>,
            tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xi1>, tensor<3x2xf32>, tensor<f32>, tensor<2xi8>
        }""",
    "entry_of_another_name_beside_a_private_main": """
        func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.composite "own.main" %x {decomposition = @main} : (tensor<3xf32>) -> tensor<3xf32>
          %1 = func.call @main(%0) : (tensor<3xf32>) -> tensor<3xf32>
          return %1 : tensor<3xf32>
        }
        func.func private @main(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.exponential %x : tensor<3xf32>
          return %0 : tensor<3xf32>
        }""",
    "same_operand_twice": """
        func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %0 = stablehlo.multiply %x, %x : tensor<3xf32>
          %1 = stablehlo.multiply %x, %y : tensor<3xf32>
          return %0, %1 : tensor<3xf32>, tensor<3xf32>
        }""",
    "empty_tensors_made_of_a_splat": """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %none = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<0x2x3xf32>
          %flat = stablehlo.reshape %none : (tensor<0x2x3xf32>) -> tensor<0x3xf32>
          %0 = stablehlo.concatenate %flat, %x, dim = 0 : (tensor<0x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
          return %0 : tensor<2x3xf32>
        }""",
    "conv_and_pool": """
        func.func @main(%x: tensor<1x6x6x2xf32>, %w: tensor<3x3x2x4xf32>)
            -> (tensor<1x3x3x4xf32>, tensor<1x3x3x2xf32>) {
          %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
            window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64,
            feature_group_count = 1 : i64} : (tensor<1x6x6x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x3x3x4xf32>
          %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
          %1 = "stablehlo.reduce_window"(%x, %low) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %m = stablehlo.maximum %a, %b : tensor<f32>
              stablehlo.return %m : tensor<f32>
          }) {window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}
             : (tensor<1x6x6x2xf32>, tensor<f32>) -> tensor<1x3x3x2xf32>
          return %0, %1 : tensor<1x3x3x4xf32>, tensor<1x3x3x2xf32>
        }""",
}
"""Modules that XLA runs whole, so that the split can be proven to lose nothing."""

SORT_THAT_CAPTURES = """
    func.func @main(%x: tensor<5xf32>, %pivot: tensor<f32>) -> tensor<5xf32> {
      %two = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = "stablehlo.sort"(%x) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %da = stablehlo.subtract %a, %pivot : tensor<f32>
          %db = stablehlo.subtract %b, %pivot : tensor<f32>
          %qa = stablehlo.multiply %da, %da : tensor<f32>
          %qb = stablehlo.multiply %db, %db : tensor<f32>
          %ta = stablehlo.multiply %qa, %two : tensor<f32>
          %tb = stablehlo.multiply %qb, %two : tensor<f32>
          %c = stablehlo.compare LT, %ta, %tb : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }) {dimension = 0 : i64} : (tensor<5xf32>) -> tensor<5xf32>
      return %0 : tensor<5xf32>
    }"""
"""XLA runs no sort whose comparator captures, but it is StableHLO, and other compilers may."""

SHAPED = """
    func.func @main(%x: tensor<6xf32>) -> (tensor<2x3xf32>, tensor<4xi32>) {
      %shape = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
      %n = stablehlo.constant dense<4> : tensor<1xi32>
      %0 = stablehlo.dynamic_reshape %x, %shape : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>
      %1 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<4xi32>
      return %0, %1 : tensor<2x3xf32>, tensor<4xi32>
    }"""
"""Constants that decide a shape belong to the op though they are no splats."""

CUSTOM_CALLS = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = stablehlo.custom_call @Alpha(%x) {called_computations = [@inner], mhlo.frontend_attributes = {n = "1"}}
           : (tensor<4xf32>) -> tensor<4xf32>
      %1 = stablehlo.custom_call @Beta(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }
    func.func private @inner(%x: tensor<f32>) -> tensor<f32> {
      return %x : tensor<f32>
    }"""

SHARDED = """
    module {
      sdy.mesh @devices = <["x"=2]>
      func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@devices, [{}]>}) -> tensor<4xf32> {
        %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@devices, [{}]>]>} : tensor<4xf32>
        %1 = sdy.sharding_constraint %0 <@devices, [{}]> : tensor<4xf32>
        %2 = "stablehlo.all_reduce"(%1) ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %s = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
        return %2 : tensor<4xf32>
      }
    }"""
"""Shardy: attributes and ops name a mesh, whose devices all hold the whole tensors."""

UNSPLITTABLE = """
    func.func @main(%x: tensor<4xf32>, %d: tensor<?xf32>) -> tensor<4xf32> {
      %token = stablehlo.create_token : !stablehlo.token
      %pair = stablehlo.tuple %x, %x : tuple<tensor<4xf32>, tensor<4xf32>>
      %kept = stablehlo.custom_call @Keep(%pair)
          : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tuple<tensor<4xf32>, tensor<4xf32>>
      %0 = stablehlo.get_tuple_element %kept[0] : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
      %1 = stablehlo.negate %d : tensor<?xf32>
      %2 = func.call @outside(%0) : (tensor<4xf32>) -> tensor<4xf32>
      %3 = func.call @endless(%2) : (tensor<4xf32>) -> tensor<4xf32>
      %4, %out = stablehlo.custom_call @Print(%3, %token) {has_side_effect = true}
          : (tensor<4xf32>, !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
      return %4 : tensor<4xf32>
    }
    func.func private @outside(tensor<4xf32>) -> tensor<4xf32>
    func.func private @endless(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = func.call @endless(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
"""Seven ops without a module; the custom call with a token has one."""
