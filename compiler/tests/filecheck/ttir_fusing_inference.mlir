// A decoder's ops: heads that share keys, a query of one position, rotary positions, running sums, rows of a table.
// RUN: opscope opt -p ttir-fusing %s | filecheck %s
// CHECK-LABEL: sym_name = "shared"
// CHECK: "ttir.scaled_dot_product_attention"(%q, %{{[0-9]+}}, %{{[0-9]+}}) <{is_causal = false, scale = 2.500000e-01 : f32}>
// CHECK-SAME: (tensor<1x4x16x32xf32>, tensor<1x2x16x32xf32>, tensor<1x2x16x32xf32>) -> tensor<1x4x16x32xf32>
// CHECK-NEXT: "func.return"
func.func @shared(%q: tensor<1x4x16x32xf32>, %k: tensor<1x2x16x32xf32>, %v: tensor<1x2x16x32xf32>) -> tensor<1x4x16x32xf32> {
  %0 = "ttir.reshape"(%k) <{shape = [1 : i32, 2 : i32, 1 : i32, 16 : i32, 32 : i32]}> : (tensor<1x2x16x32xf32>) -> tensor<1x2x1x16x32xf32>
  %1 = "ttir.broadcast"(%0) <{broadcast_dimensions = array<i64: 1, 1, 2, 1, 1>}> : (tensor<1x2x1x16x32xf32>) -> tensor<1x2x2x16x32xf32>
  %2 = "ttir.reshape"(%1) <{shape = [1 : i32, 4 : i32, 16 : i32, 32 : i32]}> : (tensor<1x2x2x16x32xf32>) -> tensor<1x4x16x32xf32>
  %3 = "ttir.reshape"(%v) <{shape = [1 : i32, 2 : i32, 1 : i32, 16 : i32, 32 : i32]}> : (tensor<1x2x16x32xf32>) -> tensor<1x2x1x16x32xf32>
  %4 = "ttir.broadcast"(%3) <{broadcast_dimensions = array<i64: 1, 1, 2, 1, 1>}> : (tensor<1x2x1x16x32xf32>) -> tensor<1x2x2x16x32xf32>
  %5 = "ttir.reshape"(%4) <{shape = [1 : i32, 4 : i32, 16 : i32, 32 : i32]}> : (tensor<1x2x2x16x32xf32>) -> tensor<1x4x16x32xf32>
  %6 = "ttir.matmul"(%q, %2) <{transpose_a = false, transpose_b = true}> : (tensor<1x4x16x32xf32>, tensor<1x4x16x32xf32>) -> tensor<1x4x16x16xf32>
  %7 = "ttir.full"() <{shape = array<i32>, fill_value = 2.500000e-01 : f32}> : () -> tensor<f32>
  %8 = "ttir.multiply"(%6, %7) : (tensor<1x4x16x16xf32>, tensor<f32>) -> tensor<1x4x16x16xf32>
  %9 = "ttir.softmax"(%8) <{dimension = 3 : si32, numericStable = true}> : (tensor<1x4x16x16xf32>) -> tensor<1x4x16x16xf32>
  %10 = "ttir.matmul"(%9, %5) <{transpose_a = false, transpose_b = false}> : (tensor<1x4x16x16xf32>, tensor<1x4x16x32xf32>) -> tensor<1x4x16x32xf32>
  return %10 : tensor<1x4x16x32xf32>
}
// CHECK-LABEL: sym_name = "generating"
// CHECK: %[[Q:[0-9]+]] = "ttir.reshape"(%q) <{shape = [1 : i32, 1 : i32, 4 : i32, 32 : i32]}>
// CHECK: "ttir.scaled_dot_product_attention_decode"(%[[Q]], %k, %v, %{{[0-9]+}}) <{is_causal = false, scale = 1.000000e+00 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>}>
func.func @generating(%q: tensor<1x4x1x32xf32>, %k: tensor<1x4x16x32xf32>, %v: tensor<1x4x16x32xf32>, %m: tensor<16xi1>) -> tensor<1x4x1x32xf32> {
  %0 = "ttir.matmul"(%q, %k) <{transpose_a = false, transpose_b = true}> : (tensor<1x4x1x32xf32>, tensor<1x4x16x32xf32>) -> tensor<1x4x1x16xf32>
  %1 = "ttir.full"() <{shape = array<i32>, fill_value = -1.000000e+30 : f32}> : () -> tensor<f32>
  %2 = "ttir.where"(%m, %0, %1) : (tensor<16xi1>, tensor<1x4x1x16xf32>, tensor<f32>) -> tensor<1x4x1x16xf32>
  %3 = "ttir.softmax"(%2) <{dimension = 3 : si32, numericStable = true}> : (tensor<1x4x1x16xf32>) -> tensor<1x4x1x16xf32>
  %4 = "ttir.matmul"(%3, %v) <{transpose_a = false, transpose_b = false}> : (tensor<1x4x1x16xf32>, tensor<1x4x16x32xf32>) -> tensor<1x4x1x32xf32>
  return %4 : tensor<1x4x1x32xf32>
}
// CHECK-LABEL: sym_name = "rotary"
// CHECK: "ttir.rotary_embedding"(%x, %c, %s) : (tensor<1x4x16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>)
// CHECK-NEXT: "func.return"
func.func @rotary(%x: tensor<1x4x16x32xf32>, %c: tensor<16x32xf32>, %s: tensor<16x32xf32>) -> tensor<1x4x16x32xf32> {
  %0 = "ttir.slice_static"(%x) <{begins = [0 : i32, 0 : i32, 0 : i32, 0 : i32], ends = [1 : i32, 4 : i32, 16 : i32, 16 : i32], step = [1 : i32, 1 : i32, 1 : i32, 1 : i32]}> : (tensor<1x4x16x32xf32>) -> tensor<1x4x16x16xf32>
  %1 = "ttir.slice_static"(%x) <{begins = [0 : i32, 0 : i32, 0 : i32, 16 : i32], ends = [1 : i32, 4 : i32, 16 : i32, 32 : i32], step = [1 : i32, 1 : i32, 1 : i32, 1 : i32]}> : (tensor<1x4x16x32xf32>) -> tensor<1x4x16x16xf32>
  %2 = "ttir.neg"(%1) : (tensor<1x4x16x16xf32>) -> tensor<1x4x16x16xf32>
  %3 = "ttir.concat"(%2, %0) <{dim = 3 : si32}> : (tensor<1x4x16x16xf32>, tensor<1x4x16x16xf32>) -> tensor<1x4x16x32xf32>
  %4 = "ttir.multiply"(%x, %c) : (tensor<1x4x16x32xf32>, tensor<16x32xf32>) -> tensor<1x4x16x32xf32>
  %5 = "ttir.multiply"(%3, %s) : (tensor<1x4x16x32xf32>, tensor<16x32xf32>) -> tensor<1x4x16x32xf32>
  %6 = "ttir.add"(%4, %5) : (tensor<1x4x16x32xf32>, tensor<1x4x16x32xf32>) -> tensor<1x4x16x32xf32>
  return %6 : tensor<1x4x16x32xf32>
}
// CHECK-LABEL: sym_name = "names"
// CHECK: "ttir.cumsum"(%x) <{dim = 2 : i64}>
// CHECK-NEXT: "ttir.embedding"(%i, %t) : (tensor<8xi32>, tensor<100x32xf32>) -> tensor<8x32xf32>
func.func @names(%x: tensor<2x1x16x32xf32>, %t: tensor<100x32xf32>, %i: tensor<8xi32>) -> (tensor<2x1x16x32xf32>, tensor<8x32xf32>) {
  %0 = "ttir.sum_pool2d"(%x) <{kernel = array<i32: 1, 16>, stride = array<i32: 1, 1>, padding = array<i32: 0, 15, 0, 0>, dilation = array<i32: 1, 1>, ceil_mode = false}> : (tensor<2x1x16x32xf32>) -> tensor<2x1x16x32xf32>
  %1 = "ttir.gather"(%t, %i) <{offset_dims = array<i64: 1>, collapsed_slice_dims = array<i64: 0>, operand_batching_dims = array<i64>, start_indices_batching_dims = array<i64>, start_index_map = array<i64: 0>, index_vector_dim = 1 : i64, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xf32>, tensor<8xi32>) -> tensor<8x32xf32>
  return %0, %1 : tensor<2x1x16x32xf32>, tensor<8x32xf32>
}
