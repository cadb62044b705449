// Rows and patterns: matrix product, implicit broadcast, reduction with a known body, comparison, conversion.
// RUN: opscope opt -p stablehlo-to-ttir %s | filecheck %s

// CHECK-LABEL: sym_name = "main"
// CHECK:       ^bb0(%[[X:[0-9]+]]: tensor<32x64xf32>, %[[W:[0-9]+]]: tensor<64x16xf32>, %[[B:[0-9]+]]: tensor<16xf32>, %[[I:[0-9]+]]:
func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x16xf32>, %b: tensor<16xf32>, %i: tensor<32x16xi32>) -> (tensor<32xf32>, tensor<32x16xi1>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[DOT:[0-9]+]] = "ttir.dot_general"(%[[X]], %[[W]]) <{batch_dims_lhs = array<i64>, batch_dims_rhs = array<i64>, contract_dims_lhs = array<i64: 1>, contract_dims_rhs = array<i64: 0>}>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  // CHECK-NEXT: %[[ROW:[0-9]+]] = "ttir.reshape"(%[[B]]) <{shape = [1 : i32, 16 : i32]}>
  // CHECK-NEXT: %[[WIDE:[0-9]+]] = "ttir.broadcast"(%[[ROW]]) <{broadcast_dimensions = array<i64: 32, 1>}>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
  // CHECK-NEXT: %[[SUM:[0-9]+]] = "ttir.add"(%[[DOT]], %[[WIDE]])
  %2 = stablehlo.add %0, %1 : tensor<32x16xf32>
  // CHECK-NEXT: %[[ROWS:[0-9]+]] = "ttir.sum"(%[[SUM]]) <{dim_arg = [1 : i32], keep_dim = false}>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
  // CHECK-NEXT: %[[F:[0-9]+]] = "ttir.typecast"(%[[I]]) : (tensor<32x16xi32>) -> tensor<32x16xf32>
  %4 = stablehlo.convert %i : (tensor<32x16xi32>) -> tensor<32x16xf32>
  // CHECK-NEXT: %[[LESS:[0-9]+]] = "ttir.lt"(%[[SUM]], %[[F]])
  %5 = stablehlo.compare LT, %2, %4 : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xi1>
  // CHECK-NEXT: "func.return"(%[[ROWS]], %[[LESS]])
  // CHECK-NOT: stablehlo
  return %3, %5 : tensor<32xf32>, tensor<32x16xi1>
}
