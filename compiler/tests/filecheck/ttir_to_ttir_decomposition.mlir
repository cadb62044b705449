// A contraction is a product of matrices between permutations and reshapes; one that is read transposed needs none.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-to-ttir-decomposition %s | filecheck %s
// RUN: opscope opt -p stablehlo-to-ttir %s | filecheck %s --check-prefix=BEFORE
// BEFORE: "ttir.dot_general"(%{{.*}}) <{batch_dims_lhs = array<i64: 0>, batch_dims_rhs = array<i64: 1>, contract_dims_lhs = array<i64: 2>, contract_dims_rhs = array<i64: 2>}>
// CHECK: %[[RIGHT:[0-9]+]] = "ttir.permute"(%{{.*}}) <{permutation = array<i64: 1, 0, 2>}>
// CHECK-NEXT: "ttir.matmul"(%{{.*}}, %[[RIGHT]]) <{transpose_a = false, transpose_b = true}>
// CHECK-NEXT: "func.return"
func.func @main(%x: tensor<2x4x8xf32>, %y: tensor<16x2x8xf32>) -> tensor<2x4x16xf32> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [2] x [2] : (tensor<2x4x8xf32>, tensor<16x2x8xf32>) -> tensor<2x4x16xf32>
  return %0 : tensor<2x4x16xf32>
}
