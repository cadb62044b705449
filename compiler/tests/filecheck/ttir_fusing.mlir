// Softmax, RMS norm with its weight, GELU, ReLU, a bias, attention: one op for what several did. One op alone stays.
// RUN: opscope opt -p ttir-fusing %s | filecheck %s
// CHECK-LABEL: sym_name = "norms"
// CHECK: "ttir.softmax"(%x) <{dimension = 1 : si32, numericStable = true}>
// CHECK-NEXT: "ttir.rms_norm"(%x, %w) <{normalized_shape = array<i64: 32>, epsilon = 1.000000e-06 : f32}>
// CHECK-NEXT: "func.return"
func.func @norms(%x: tensor<64x32xf32>, %w: tensor<32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  %0 = "ttir.max"(%x) <{dim_arg = [1 : i32], keep_dim = true}> : (tensor<64x32xf32>) -> tensor<64x1xf32>
  %1 = "ttir.subtract"(%x, %0) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %2 = "ttir.exp"(%1) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %3 = "ttir.sum"(%2) <{dim_arg = [1 : i32], keep_dim = true}> : (tensor<64x32xf32>) -> tensor<64x1xf32>
  %4 = "ttir.div"(%2, %3) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %5 = "ttir.multiply"(%x, %x) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %6 = "ttir.mean"(%5) <{dim_arg = [1 : i32], keep_dim = true}> : (tensor<64x32xf32>) -> tensor<64x1xf32>
  %7 = "ttir.full"() <{shape = array<i32>, fill_value = 1.000000e-06 : f32}> : () -> tensor<f32>
  %8 = "ttir.add"(%6, %7) : (tensor<64x1xf32>, tensor<f32>) -> tensor<64x1xf32>
  %9 = "ttir.rsqrt"(%8) : (tensor<64x1xf32>) -> tensor<64x1xf32>
  %10 = "ttir.multiply"(%9, %x) : (tensor<64x1xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %11 = "ttir.multiply"(%10, %w) : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  return %4, %11 : tensor<64x32xf32>, tensor<64x32xf32>
}
// CHECK-LABEL: sym_name = "dense"
// CHECK: %[[Y:[0-9]+]] = "ttir.linear"(%x, %w, %b)
// CHECK-NEXT: "ttir.relu"(%[[Y]])
// CHECK-NEXT: "func.return"
func.func @dense(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %b: tensor<16xf32>) -> tensor<64x16xf32> {
  %0 = "ttir.matmul"(%x, %w) <{transpose_a = false, transpose_b = false}> : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %1 = "ttir.add"(%b, %0) : (tensor<16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  %2 = "ttir.full"() <{shape = array<i32>, fill_value = 0.000000e+00 : f32}> : () -> tensor<f32>
  %3 = "ttir.maximum"(%1, %2) : (tensor<64x16xf32>, tensor<f32>) -> tensor<64x16xf32>
  return %3 : tensor<64x16xf32>
}
// CHECK-LABEL: sym_name = "attention"
// CHECK: %[[KEY:[0-9]+]] = "ttir.permute"(%k) <{permutation = array<i64: 0, 1, 3, 2>}>
// CHECK-NEXT: "ttir.scaled_dot_product_attention"(%q, %[[KEY]], %v, %m) <{is_causal = false, scale = 1.250000e-01 : f32}>
// CHECK-NEXT: "func.return"
func.func @attention(%q: tensor<1x2x32x64xf32>, %k: tensor<1x2x64x32xf32>, %v: tensor<1x2x32x64xf32>, %m: tensor<1x1x32x32xf32>) -> tensor<1x2x32x64xf32> {
  %0 = "ttir.matmul"(%q, %k) <{transpose_a = false, transpose_b = false}> : (tensor<1x2x32x64xf32>, tensor<1x2x64x32xf32>) -> tensor<1x2x32x32xf32>
  %1 = "ttir.full"() <{shape = array<i32>, fill_value = 1.250000e-01 : f32}> : () -> tensor<f32>
  %2 = "ttir.multiply"(%0, %1) : (tensor<1x2x32x32xf32>, tensor<f32>) -> tensor<1x2x32x32xf32>
  %3 = "ttir.add"(%2, %m) : (tensor<1x2x32x32xf32>, tensor<1x1x32x32xf32>) -> tensor<1x2x32x32xf32>
  %4 = "ttir.softmax"(%3) <{dimension = 3 : si32, numericStable = true}> : (tensor<1x2x32x32xf32>) -> tensor<1x2x32x32xf32>
  %5 = "ttir.matmul"(%4, %v) <{transpose_a = false, transpose_b = false}> : (tensor<1x2x32x32xf32>, tensor<1x2x32x64xf32>) -> tensor<1x2x32x64xf32>
  return %5 : tensor<1x2x32x64xf32>
}
