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
