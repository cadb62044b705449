// A convolution whose gather has over 1,400 rows of tiles becomes one per row of its kernel, and a sum.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-conv-fracture %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<1x112x112x64xf32>, %[[W:[0-9]+]]: tensor<3x3x64x64xf32>):
func.func @main(%x: tensor<1x112x112x64xf32>, %w: tensor<3x3x64x64xf32>) -> (tensor<1x112x112x64xf32>, tensor<1x56x56x64xf32>) {
  // CHECK-NEXT: %[[A:[0-9]+]] = "ttir.slice_static"(%[[W]]) <{begins = [0 : i32,
  // CHECK-NEXT: %[[TOP:[0-9]+]] = "ttir.conv2d"(%[[X]], %[[A]]) <{stride = array<i32: 1, 1>, padding = array<i32: 1, 1, -1, 1>
  // CHECK-NEXT: %[[B:[0-9]+]] = "ttir.slice_static"(%[[W]]) <{begins = [1 : i32,
  // CHECK-NEXT: %[[MIDDLE:[0-9]+]] = "ttir.conv2d"(%[[X]], %[[B]]) <{stride = array<i32: 1, 1>, padding = array<i32: 0, 1, 0, 1>
  // CHECK-NEXT: %[[C:[0-9]+]] = "ttir.slice_static"(%[[W]]) <{begins = [2 : i32,
  // CHECK-NEXT: %[[BOTTOM:[0-9]+]] = "ttir.conv2d"(%[[X]], %[[C]]) <{stride = array<i32: 1, 1>, padding = array<i32: -1, 1, 1, 1>
  // CHECK-NEXT: %[[BOTH:[0-9]+]] = "ttir.add"(%[[TOP]], %[[MIDDLE]])
  // CHECK-NEXT: "ttir.add"(%[[BOTTOM]], %[[BOTH]])
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x112x112x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x112x112x64xf32>
  // CHECK-NEXT: "ttir.conv2d"(%[[X]], %[[W]]) <{stride = array<i32: 2, 2>
  %1 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x112x112x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x56x56x64xf32>
  return %0, %1 : tensor<1x112x112x64xf32>, tensor<1x56x56x64xf32>
}
