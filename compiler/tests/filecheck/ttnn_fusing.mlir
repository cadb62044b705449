// An activation is computed while the product is in Dst.
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-fusing' %s | filecheck %s
// CHECK: "ttnn.linear"{{.*}}activation = "relu"
// CHECK-NOT: ttnn.relu
// CHECK: "ttnn.matmul"{{.*}}activation = "gelu_tanh"
// CHECK-NOT: ttnn.gelu
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x32xf32>, %b: tensor<32xf32>) -> tensor<64x32xf32> {
  %0 = "ttir.linear"(%x, %w, %b) <{transpose_a = false, transpose_b = false}> : (tensor<64x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  %1 = "ttir.relu"(%0) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = "ttir.matmul"(%1, %w) <{transpose_a = false, transpose_b = false}> : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %3 = "ttir.gelu"(%2) <{approximate = "tanh"}> : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %3 : tensor<64x32xf32>
}
