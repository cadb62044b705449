// Moves that move nothing, two moves that are one, moves of constants.
// RUN: opscope opt -p canonicalize %s | filecheck %s
// CHECK: "func.func"
// CHECK-NEXT: ^bb0(%x:
// CHECK-NEXT: %[[ONE:[0-9]+]] = "ttir.permute"(%x) <{permutation = array<i64: 2, 0, 1>}>
// CHECK-NEXT: %[[MAX:[0-9]+]] = "ttir.max"(%x) <{dim_arg = [2 : i32], keep_dim = true}>
// CHECK-NEXT: %[[FULL:[0-9]+]] = "ttir.full"() <{shape = array<i32: 4, 4>, fill_value = 2.000000e+00 : f32}>
// CHECK-NEXT: "func.return"(%[[ONE]], %[[MAX]], %x, %[[FULL]])
func.func @main(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x1xf32>, tensor<2x3x4xf32>, tensor<4x4xf32>) {
  %0 = "ttir.permute"(%x) <{permutation = array<i64: 1, 0, 2>}> : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %1 = "ttir.permute"(%0) <{permutation = array<i64: 2, 1, 0>}> : (tensor<3x2x4xf32>) -> tensor<4x2x3xf32>
  %2 = "ttir.max"(%x) <{dim_arg = [2 : i32], keep_dim = false}> : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %3 = "ttir.reshape"(%2) <{shape = [2 : i32, 3 : i32, 1 : i32]}> : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %4 = "ttir.reshape"(%x) <{shape = [6 : i32, 4 : i32]}> : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %5 = "ttir.reshape"(%4) <{shape = [2 : i32, 3 : i32, 4 : i32]}> : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %6 = "ttir.full"() <{shape = array<i32>, fill_value = 2.000000e+00 : f32}> : () -> tensor<f32>
  %7 = "ttir.reshape"(%6) <{shape = [1 : i32, 1 : i32]}> : (tensor<f32>) -> tensor<1x1xf32>
  %8 = "ttir.broadcast"(%7) <{broadcast_dimensions = array<i64: 4, 4>}> : (tensor<1x1xf32>) -> tensor<4x4xf32>
  return %1, %3, %5, %8 : tensor<4x2x3xf32>, tensor<2x3x1xf32>, tensor<2x3x4xf32>, tensor<4x4xf32>
}
// What PyTorch's add makes of a second operand without alpha: it times 1, an integer that is converted. An argument alone stays.
// CHECK-LABEL: sym_name = "times_one"
// CHECK: %[[EXP:[0-9]+]] = "ttir.exp"(%x)
// CHECK-NEXT: %[[ONE:[0-9]+]] = "ttir.full"()
// CHECK-NEXT: %[[KEPT:[0-9]+]] = "ttir.multiply"(%x, %[[ONE]])
// CHECK-NEXT: "func.return"(%[[EXP]], %[[KEPT]])
func.func @times_one(%x: tensor<32xbf16>) -> (tensor<32xbf16>, tensor<32xbf16>) {
  %0 = "ttir.exp"(%x) : (tensor<32xbf16>) -> tensor<32xbf16>
  %1 = "ttir.full"() <{shape = array<i32>, fill_value = 1 : i32}> : () -> tensor<i32>
  %2 = "ttir.typecast"(%1) : (tensor<i32>) -> tensor<bf16>
  %3 = "ttir.multiply"(%2, %0) : (tensor<bf16>, tensor<32xbf16>) -> tensor<32xbf16>
  %4 = "ttir.multiply"(%x, %2) : (tensor<32xbf16>, tensor<bf16>) -> tensor<32xbf16>
  return %3, %4 : tensor<32xbf16>, tensor<32xbf16>
}
