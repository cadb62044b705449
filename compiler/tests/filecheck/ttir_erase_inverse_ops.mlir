// A permutation sinks below what is elementwise and meets its inverse; a folded batch of a product is unfolded.
// RUN: opscope opt -p ttir-erase-inverse-ops %s | filecheck %s
// CHECK: ^bb0(%x: tensor<1x8x8x32xf32>, %a: tensor<1x64x32xf32>, %w: tensor<32x32xf32>):
// CHECK-NEXT: %[[ABS:[0-9]+]] = "ttir.abs"(%x)
// CHECK-NEXT: %[[EXP:[0-9]+]] = "ttir.exp"(%[[ABS]])
// CHECK-NEXT: %[[PROD:[0-9]+]] = "ttir.matmul"(%a, %w) {{.*}} -> tensor<1x64x32xf32>
// CHECK-NEXT: "func.return"(%[[EXP]], %[[PROD]])
func.func @main(%x: tensor<1x8x8x32xf32>, %a: tensor<1x64x32xf32>, %w: tensor<32x32xf32>) -> (tensor<1x8x8x32xf32>, tensor<1x64x32xf32>) {
  %0 = "ttir.permute"(%x) <{permutation = array<i64: 0, 3, 1, 2>}> : (tensor<1x8x8x32xf32>) -> tensor<1x32x8x8xf32>
  %1 = "ttir.abs"(%0) : (tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %2 = "ttir.exp"(%1) : (tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %3 = "ttir.permute"(%2) <{permutation = array<i64: 0, 2, 3, 1>}> : (tensor<1x32x8x8xf32>) -> tensor<1x8x8x32xf32>
  %4 = "ttir.reshape"(%a) <{shape = [64 : i32, 32 : i32]}> : (tensor<1x64x32xf32>) -> tensor<64x32xf32>
  %5 = "ttir.matmul"(%4, %w) <{transpose_a = false, transpose_b = false}> : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %6 = "ttir.reshape"(%5) <{shape = [1 : i32, 64 : i32, 32 : i32]}> : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
  return %3, %6 : tensor<1x8x8x32xf32>, tensor<1x64x32xf32>
}
// A number per channel is no reason to stay: it is reshaped to where channels were. Weights of a convolution stay in order.
// CHECK-LABEL: sym_name = "channels_first"
// CHECK: %[[W:[0-9]+]] = "ttir.permute"(%w)
// CHECK-NEXT: %[[SCALED:[0-9]+]] = "ttir.multiply"(%[[W]], %b)
// CHECK-NEXT: %[[CONV:[0-9]+]] = "ttir.conv2d"(%x, %[[SCALED]])
// CHECK-NEXT: %[[B:[0-9]+]] = "ttir.reshape"(%b) <{shape = [1 : i32, 1 : i32, 1 : i32, 32 : i32]}>
// CHECK-NEXT: %[[SHIFTED:[0-9]+]] = "ttir.add"(%[[CONV]], %[[B]])
// CHECK-NEXT: "func.return"(%[[SHIFTED]])
func.func @channels_first(%x: tensor<1x8x8x32xf32>, %w: tensor<32x32x1x1xf32>, %b: tensor<32xf32>) -> tensor<1x8x8x32xf32> {
  %0 = "ttir.permute"(%w) <{permutation = array<i64: 2, 3, 1, 0>}> : (tensor<32x32x1x1xf32>) -> tensor<1x1x32x32xf32>
  %1 = "ttir.multiply"(%0, %b) : (tensor<1x1x32x32xf32>, tensor<32xf32>) -> tensor<1x1x32x32xf32>
  %2 = "ttir.conv2d"(%x, %1) <{stride = array<i32: 1, 1>, padding = array<i32: 0, 0, 0, 0>, dilation = array<i32: 1, 1>, input_dilation = array<i32: 1, 1>, groups = 1 : i32, batch_groups = 1 : i32}> : (tensor<1x8x8x32xf32>, tensor<1x1x32x32xf32>) -> tensor<1x8x8x32xf32>
  %3 = "ttir.permute"(%2) <{permutation = array<i64: 0, 3, 1, 2>}> : (tensor<1x8x8x32xf32>) -> tensor<1x32x8x8xf32>
  %4 = "ttir.reshape"(%b) <{shape = [1 : i32, 32 : i32, 1 : i32, 1 : i32]}> : (tensor<32xf32>) -> tensor<1x32x1x1xf32>
  %5 = "ttir.add"(%3, %4) : (tensor<1x32x8x8xf32>, tensor<1x32x1x1xf32>) -> tensor<1x32x8x8xf32>
  %6 = "ttir.permute"(%5) <{permutation = array<i64: 0, 2, 3, 1>}> : (tensor<1x32x8x8xf32>) -> tensor<1x8x8x32xf32>
  return %6 : tensor<1x8x8x32xf32>
}
