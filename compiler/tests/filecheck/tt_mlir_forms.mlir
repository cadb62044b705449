// tt-mlir's forms of single ops: what its own conversions write.
// RUN: ttmlir-opt --split-input-file --stablehlo-to-ttir-pipeline %s | FileCheck %s
// Sizes are numbers, ties go away from zero by the floor of a magnitude, and random numbers have the type of their tensor.
// CHECK-LABEL: func.func @size
// CHECK: "ttir.constant"() <{value = dense<7> : tensor<i32>}>
func.func @size(%a: tensor<3x7xf32>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<3x7xf32>) -> tensor<i32>
  return %0 : tensor<i32>
}
// CHECK-LABEL: func.func @away
// CHECK: %[[HALF:[0-9]+]] = "ttir.constant"() <{value = dense<5.000000e-01>
// CHECK: "ttir.abs"
// CHECK: "ttir.add"(%{{[0-9]+}}, %[[HALF]])
// CHECK: "ttir.floor"
// CHECK: "ttir.sign"(%arg0)
// CHECK: "ttir.multiply"
func.func @away(%a: tensor<5xbf16>) -> tensor<5xbf16> {
  %0 = stablehlo.round_nearest_afz %a : tensor<5xbf16>
  return %0 : tensor<5xbf16>
}
// CHECK-LABEL: func.func @barrier
// CHECK: %[[B:[0-9]+]]:2 = "ttcore.optimization_barrier"(%arg0, %arg1)
// CHECK: "ttir.subtract"(%[[B]]#1, %[[B]]#0)
func.func @barrier(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
  %0:2 = stablehlo.optimization_barrier %a, %b : tensor<5xf32>, tensor<5xf32>
  %1 = stablehlo.subtract %0#1, %0#0 : tensor<5xf32>
  return %1 : tensor<5xf32>
}
// A number beside a widened operand is compared in its own type; beside one that was wide it is not.
// CHECK-LABEL: func.func @narrow
// CHECK: "ttir.ge"(%{{[0-9]+}}, %arg0){{.*}}: (tensor<4xf16>, tensor<4xf16>)
// CHECK: "ttir.gt"(%arg1, %{{[0-9]+}}){{.*}}: (tensor<4xf32>, tensor<4xf32>)
func.func @narrow(%a: tensor<4xf16>, %b: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>) {
  %c = stablehlo.constant dense<0.3> : tensor<4xf32>
  %0 = stablehlo.convert %a : (tensor<4xf16>) -> tensor<4xf32>
  %1 = stablehlo.compare GE, %c, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = stablehlo.compare GT, %b, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %1, %2 : tensor<4xi1>, tensor<4xi1>
}
// CHECK-LABEL: func.func @spread
// CHECK: "ttir.full"{{.*}}-> tensor<12xf32>
// CHECK: "ttir.constant"{{.*}}dense<[0, 3, 4, 7, 8, 11]> : tensor<6xi64>
// CHECK: "ttir.scatter"
func.func @spread(%a: tensor<3x2xf32>) -> tensor<3x4xf32> {
  %z = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.pad %a, %z, low = [0, 0], high = [0, 0], interior = [0, 2] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
// What moves with sorted keys is read from a table by the keys' indices, whatever JAX makes of zeros and NaN.
// CHECK-LABEL: func.func @keys
// CHECK: "ttir.sort"(%arg0) <{descending = true, dim = 0 : si32
// CHECK: "ttir.arange"{{.*}}end = 15 : si64{{.*}}step = 5 : si64{{.*}}tensor<3x5xi32>
// CHECK: "ttir.embedding"{{.*}}(tensor<3x5xi32>, tensor<15x1xf32>)
func.func @keys(%a: tensor<5x3xf32>, %b: tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %p: tensor<f32>, %q: tensor<f32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.compare EQ, %y, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %z, %y : tensor<i1>, tensor<f32>
    %3 = stablehlo.compare LT, %2, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }) : (tensor<5x3xf32>, tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>)
  return %0#0, %0#1 : tensor<5x3xf32>, tensor<5x3xf32>
}
// CHECK-LABEL: func.func @largest
// CHECK: "ttir.topk"(%arg0) <{dim = -1 : i32, k = 3 : i32, largest = true, sorted = false}>
func.func @largest(%a: tensor<9xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %0:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 3 : i64}} : (tensor<9xf32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
}
// Windows at indices of several dims are numbered element by element; one that covers all is what is written.
// CHECK-LABEL: func.func @block
// CHECK: "ttir.arange"{{.*}}end = 12 : si64{{.*}}step = 4 : si64{{.*}}tensor<3x2xi32>
// CHECK: "ttir.scatter"{{.*}}dim = 0 : i32{{.*}}(tensor<20xf32>, tensor<6xi32>, tensor<6xf32>)
func.func @block(%a: tensor<5x4xf32>, %at: tensor<2xi32>, %b: tensor<3x2xf32>) -> tensor<5x4xf32> {
  %0 = "stablehlo.scatter"(%a, %at, %b) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<5x4xf32>, tensor<2xi32>, tensor<3x2xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
// CHECK-LABEL: func.func @everything
// CHECK-NEXT: return %arg2
func.func @everything(%a: tensor<5x4xf32>, %at: tensor<0xi32>, %b: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %0 = "stablehlo.scatter"(%a, %at, %b) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1]>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<5x4xf32>, tensor<0xi32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
// A dim of size 1 that is indexed is dropped all the same; a window of rows stands before its batches.
// CHECK-LABEL: func.func @rows
// CHECK: "ttir.embedding"{{.*}}(tensor<3x1xi32>, tensor<6x4xf32>) -> tensor<3x1x4xf32>
// CHECK: "ttir.reshape"{{.*}}-> tensor<3x4xf32>
// CHECK: "ttir.embedding"{{.*}}(tensor<2x3xi32>, tensor<6x4xf32>) -> tensor<2x3x4xf32>
// CHECK: "ttir.permute"{{.*}}-> tensor<3x2x4xf32>
func.func @rows(%a: tensor<1x6x4xf32>, %t: tensor<6x4xf32>, %i: tensor<3x2xi32>, %j: tensor<3x1xi32>) -> (tensor<3x4xf32>, tensor<3x2x4xf32>) {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<1x6x4xf32>, tensor<3x2xi32>) -> tensor<3x4xf32>
  %1 = "stablehlo.gather"(%t, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 4>}> : (tensor<6x4xf32>, tensor<3x1xi32>) -> tensor<3x2x4xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<3x2x4xf32>
}
// CHECK-LABEL: func.func @maxima
// CHECK: "ttir.max_pool2d_with_indices"{{.*}}kernel = array<i32: 2, 3>, padding = array<i32: 0, 1, 1, 0>
// CHECK: "ttir.scatter"{{.*}}dim = 1 : i32{{.*}}reduce_type<sum>{{.*}}(tensor<2x20x1x3xf32>, tensor<2x8x1x3xi32>, tensor<2x8x1x3xf32>)
func.func @maxima(%a: tensor<2x3x4x5xf32>, %b: tensor<2x3x4x2xf32>) -> tensor<2x3x4x5xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %b, %z) <{window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 1, 3>, padding = dense<[[0, 0], [0, 0], [0, 1], [1, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2x3x4x5xf32>, tensor<2x3x4x2xf32>, tensor<f32>) -> tensor<2x3x4x5xf32>
  return %0 : tensor<2x3x4x5xf32>
}
// An attention says of each operand whether it is there; what nothing speaks of is there if one is left.
// CHECK-LABEL: func.func @attention
// CHECK: operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>
// CHECK: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>
func.func @attention(%q: tensor<1x2x8x4xf32>, %s: tensor<2x8xf32>, %m: tensor<1x1x8x8xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) {
  %0 = stablehlo.custom_call @tt.scaled_dot_product_attention(%q, %q, %q, %s) {mhlo.frontend_attributes = {is_causal = "True", has_attention_sink = "True"}} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<2x8xf32>) -> tensor<1x2x8x4xf32>
  %1 = stablehlo.custom_call @tt.scaled_dot_product_attention(%q, %q, %q, %m) {mhlo.frontend_attributes = {is_causal = "False"}} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x8x8xf32>) -> tensor<1x2x8x4xf32>
  return %0, %1 : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
}
