// The host rearranges image and weights of a strided convolution, where that saves products of tiles.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-conv-prestride %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<1x32x32x3xf32>, %[[W:[0-9]+]]: tensor<7x7x3x64xf32>, %[[V:[0-9]+]]: tensor<3x3x64x64xf32>):
func.func @main(%x: tensor<1x32x32x3xf32>, %w: tensor<7x7x3x64xf32>, %v: tensor<3x3x64x64xf32>) -> tensor<1x8x8x64xf32> {
  // CHECK-NEXT: %[[BLOCKS:[0-9]+]] = "ttir.reshape"(%[[X]]) {{.*}} -> tensor<1x16x2x16x2x3xf32>
  // CHECK-NEXT: %[[TURNED:[0-9]+]] = "ttir.permute"(%[[BLOCKS]]) <{permutation = array<i64: 0, 1, 3, 2, 4, 5>}>
  // CHECK-NEXT: %[[IMAGE:[0-9]+]] = "ttir.reshape"(%[[TURNED]]) {{.*}} -> tensor<1x16x16x12xf32>
  // CHECK-NEXT: "ttir.pad"(%[[W]]) <{padding = array<i32: 1, 0, 1, 0, 0, 0, 0, 0>
  // CHECK: %[[TAPS:[0-9]+]] = "ttir.reshape"(%{{[0-9]+}}) {{.*}} -> tensor<4x4x12x64xf32>
  // CHECK-NEXT: %[[FIRST:[0-9]+]] = "ttir.conv2d"(%[[IMAGE]], %[[TAPS]]) <{stride = array<i32: 1, 1>, padding = array<i32: 2, 2, 1, 1>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[3, 3], [3, 3]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x32x32x3xf32>, tensor<7x7x3x64xf32>) -> tensor<1x16x16x64xf32>
  // CHECK-NEXT: "ttir.conv2d"(%[[FIRST]], %[[V]]) <{stride = array<i32: 2, 2>
  %1 = stablehlo.convolution(%0, %v) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x16x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x8x8x64xf32>
  return %1 : tensor<1x8x8x64xf32>
}
