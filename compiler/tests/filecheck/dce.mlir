// What nobody reads goes, and then what only that read.
// RUN: opscope opt -p dce %s | filecheck %s
// CHECK: ^bb0(%x:
// CHECK-NEXT: "func.return"(%x)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "ttir.add"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
