// A convolution takes NHWC and HWIO, whatever the module has; a reduce_window by maximum from -inf is a pool.
// RUN: opscope opt -p stablehlo-to-ttir %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<1x3x8x8xbf16>, %[[K:[0-9]+]]: tensor<16x3x3x3xbf16>):
func.func @main(%x: tensor<1x3x8x8xbf16>, %k: tensor<16x3x3x3xbf16>) -> tensor<1x4x4x16xbf16> {
  %low = stablehlo.constant dense<0xFF80> : tensor<bf16>
  // CHECK-DAG: %[[NHWC:[0-9]+]] = "ttir.permute"(%[[X]]) <{permutation = array<i64: 0, 2, 3, 1>}>
  // CHECK-DAG: %[[HWIO:[0-9]+]] = "ttir.permute"(%[[K]]) <{permutation = array<i64: 2, 3, 1, 0>}>
  // CHECK: %[[Y:[0-9]+]] = "ttir.conv2d"(%[[NHWC]], %[[HWIO]])
  // CHECK-SAME: stride = array<i32: 1, 1>, padding = array<i32: 1, 1, 1, 1>
  // CHECK-SAME: -> tensor<1x8x8x16xbf16>
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x8x8xbf16>, tensor<16x3x3x3xbf16>) -> tensor<1x8x8x16xbf16>
  // CHECK-NEXT: %[[POOLED:[0-9]+]] = "ttir.max_pool2d"(%[[Y]]) <{kernel = array<i32: 2, 2>, stride = array<i32: 2, 2>
  %1 = "stablehlo.reduce_window"(%0, %low) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %m = stablehlo.maximum %a, %b : tensor<bf16>
    stablehlo.return %m : tensor<bf16>
  }) : (tensor<1x8x8x16xbf16>, tensor<bf16>) -> tensor<1x4x4x16xbf16>
  // CHECK-NEXT: "func.return"(%[[POOLED]])
  return %1 : tensor<1x4x4x16xbf16>
}
