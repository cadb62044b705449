// The gradient of a convolution's weights: the channels of the image are images, and the kernel is as large as the image.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-conv-weight-gradient %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<1x8x8x4xf32>, %[[SLOPE:[0-9]+]]: tensor<1x4x4x8xf32>):
func.func @main(%x: tensor<1x8x8x4xf32>, %slope: tensor<1x4x4x8xf32>) -> tensor<3x3x4x8xf32> {
  // CHECK: %[[MADE:[0-9]+]] = "ttir.tanh"(%[[SLOPE]])
  %0 = stablehlo.tanh %slope : tensor<1x4x4x8xf32>
  // CHECK: %[[PATCHES:[0-9]+]] = "buda.patches"(%{{[0-9]+}}) <{kernel = array<i32: 3, 3>, stride = array<i32: 2, 2>, padding = array<i32: 0, 0, 1, 1>, dilation = array<i32: 1, 1>}> : (tensor<1x8x8x4xf32>) -> tensor<9x16x4xf32>
  // CHECK-NEXT: %[[TURNED:[0-9]+]] = "ttir.permute"(%[[PATCHES]]) <{permutation = array<i64: 0, 2, 1>}>
  // CHECK: "ttir.matmul"(%[[TURNED]], %{{[0-9]+}}) {{.*}} -> tensor<9x4x8xf32>
  // CHECK-NOT: ttir.conv2d
  %1 = stablehlo.convolution(%x, %0) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[0, 1], [0, 1]], rhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x4xf32>, tensor<1x4x4x8xf32>) -> tensor<3x3x4x8xf32>
  return %1 : tensor<3x3x4x8xf32>
}
