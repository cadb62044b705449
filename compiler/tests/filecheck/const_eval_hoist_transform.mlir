// What is computed of parameters and constants alone goes to a function of its own, computed once.
// RUN: opscope opt -p 'tt-populate-argument-types{argument-types="main=input,parameter,constant"},const-eval-hoist-transform' %s | filecheck %s
// CHECK: sym_name = "main"
// CHECK: %[[W:[0-9]+]] = "ttcore.load_cached"(%w, %s) <{callee = @main_const_eval_0}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[Y:[0-9]+]] = "ttir.add"(%x, %[[W]])
// CHECK-NEXT: "func.return"(%[[Y]])
// CHECK: sym_name = "main_const_eval_0"
// CHECK: "ttir.full"
// CHECK-NEXT: "ttir.multiply"
// CHECK-NEXT: "ttir.subtract"
// CHECK-NEXT: "func.return"
// CHECK: {ttcore.function_type = "const_eval"}
// Weights' order is the host's work: their permutation stays, what is computed of them goes.
// RUN: opscope opt -p 'tt-populate-argument-types{argument-types="conv=input,parameter,parameter"},const-eval-hoist-transform' %s | filecheck %s --check-prefix CONV
// CONV: sym_name = "conv"
// CONV: %[[W:[0-9]+]] = "ttir.permute"(%w)
// CONV-NEXT: %[[S:[0-9]+]] = "ttcore.load_cached"(%[[W]], %s) <{callee = @conv_const_eval_0}>
// CONV-NEXT: "ttir.conv2d"(%x, %[[S]])
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.full"() <{shape = array<i32>, fill_value = 2.000000e+00 : f32}> : () -> tensor<f32>
  %1 = "ttir.multiply"(%w, %0) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = "ttir.subtract"(%1, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "ttir.add"(%x, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @conv(%x: tensor<1x8x8x32xf32>, %w: tensor<32x32x1x1xf32>, %s: tensor<32xf32>) -> tensor<1x8x8x32xf32> {
  %0 = "ttir.permute"(%w) <{permutation = array<i64: 2, 3, 1, 0>}> : (tensor<32x32x1x1xf32>) -> tensor<1x1x32x32xf32>
  %1 = "ttir.multiply"(%0, %s) : (tensor<1x1x32x32xf32>, tensor<32xf32>) -> tensor<1x1x32x32xf32>
  %2 = "ttir.conv2d"(%x, %1) <{stride = array<i32: 1, 1>, padding = array<i32: 0, 0, 0, 0>, dilation = array<i32: 1, 1>, input_dilation = array<i32: 1, 1>, groups = 1 : i32, batch_groups = 1 : i32}> : (tensor<1x8x8x32xf32>, tensor<1x1x32x32xf32>) -> tensor<1x8x8x32xf32>
  return %2 : tensor<1x8x8x32xf32>
}
