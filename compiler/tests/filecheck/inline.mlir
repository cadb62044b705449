// A called function's ops in place of the call, at any depth; what was only called goes.
// RUN: opscope opt -p inline %s | filecheck %s
// CHECK: sym_name = "main"
// CHECK: %[[A:[0-9]+]] = "ttir.exp"(%x)
// CHECK-NEXT: %[[B:[0-9]+]] = "ttir.tanh"(%[[A]])
// CHECK-NEXT: %[[C:[0-9]+]] = "ttir.exp"(%[[B]])
// CHECK-NEXT: "func.return"(%[[C]])
// CHECK-NOT: func.func
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "ttir.tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
