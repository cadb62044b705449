// What was computed is not computed again; a collective, which other chips meet, is.
// RUN: opscope opt -p cse %s | filecheck %s
// CHECK: %[[Y:[0-9]+]] = "ttir.exp"(%x)
// CHECK-NEXT: %[[Z:[0-9]+]] = "ttir.add"(%[[Y]], %[[Y]])
// CHECK-NEXT: "func.return"(%[[Z]])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "ttir.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "ttir.add"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
