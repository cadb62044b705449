// Calls in StableHLO, before anything is lowered.
// RUN: opscope opt --inline %s | filecheck %s
// CHECK: sym_name = "main"
// CHECK: %[[A:[0-9]+]] = "stablehlo.exponential"(%{{.*}})
// CHECK-NEXT: %[[B:[0-9]+]] = "stablehlo.tanh"(%[[A]])
// CHECK-NEXT: "func.return"(%[[B]])
// CHECK-NOT: func.func
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.exponential %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
