// 64-bit integers that only say where to read are held in 32 bits; others stay.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-narrow-indices %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<10x8xf32>, %[[I:[0-9]+]]: tensor<2x1xi64>, %[[N:[0-9]+]]: tensor<4xi64>):
func.func @main(%x: tensor<10x8xf32>, %i: tensor<2x1xi64>, %n: tensor<4xi64>) -> (tensor<2x8xf32>, tensor<4xi64>) {
  // CHECK-NEXT: %[[NARROW:[0-9]+]] = "ttir.narrow_index"(%[[I]]) : (tensor<2x1xi64>) -> tensor<2x1xi32>
  // CHECK-NEXT: %[[ROWS:[0-9]+]] = "ttir.gather"(%[[X]], %[[NARROW]])
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}> : (tensor<10x8xf32>, tensor<2x1xi64>) -> tensor<2x8xf32>
  // CHECK-NEXT: %[[KEPT:[0-9]+]] = "ttir.add"(%[[N]], %[[N]]) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %1 = stablehlo.add %n, %n : tensor<4xi64>
  // CHECK-NEXT: "func.return"(%[[ROWS]], %[[KEPT]])
  // CHECK: ttcore.narrowed_indices = 1
  return %0, %1 : tensor<2x8xf32>, tensor<4xi64>
}
