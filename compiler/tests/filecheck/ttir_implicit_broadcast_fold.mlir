// Elementwise kernels repeat dims of size 1 themselves. A broadcast that makes the result's shape stays.
// RUN: opscope opt -p ttir-implicit-broadcast-fold %s | filecheck %s
// CHECK: ^bb0(%x: tensor<2x64x32xf32>, %b: tensor<32xf32>, %r: tensor<1x32xf32>):
// CHECK-NEXT: %[[SUM:[0-9]+]] = "ttir.add"(%x, %b)
// CHECK-NEXT: %[[TWO:[0-9]+]] = "ttir.full"() <{shape = array<i32>, fill_value = 2.000000e+00 : f32}> : () -> tensor<f32>
// CHECK-NEXT: %[[OUT:[0-9]+]] = "ttir.multiply"(%[[SUM]], %[[TWO]])
// CHECK-NEXT: %[[WIDE:[0-9]+]] = "ttir.broadcast"(%r)
// CHECK-NEXT: %[[NEG:[0-9]+]] = "ttir.neg"(%[[WIDE]])
// CHECK-NEXT: "func.return"(%[[OUT]], %[[NEG]])
func.func @main(%x: tensor<2x64x32xf32>, %b: tensor<32xf32>, %r: tensor<1x32xf32>) -> (tensor<2x64x32xf32>, tensor<4x32xf32>) {
  %0 = "ttir.reshape"(%b) <{shape = [1 : i32, 1 : i32, 32 : i32]}> : (tensor<32xf32>) -> tensor<1x1x32xf32>
  %1 = "ttir.broadcast"(%0) <{broadcast_dimensions = array<i64: 2, 64, 1>}> : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
  %2 = "ttir.add"(%x, %1) : (tensor<2x64x32xf32>, tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  %3 = "ttir.full"() <{shape = array<i32: 2, 64, 32>, fill_value = 2.000000e+00 : f32}> : () -> tensor<2x64x32xf32>
  %4 = "ttir.multiply"(%2, %3) : (tensor<2x64x32xf32>, tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  %5 = "ttir.broadcast"(%r) <{broadcast_dimensions = array<i64: 4, 1>}> : (tensor<1x32xf32>) -> tensor<4x32xf32>
  %6 = "ttir.neg"(%5) : (tensor<4x32xf32>) -> tensor<4x32xf32>
  return %4, %6 : tensor<2x64x32xf32>, tensor<4x32xf32>
}
