// RUN: opscope opt --stablehlo-host-fallback %s | filecheck %s

// The double and what feeds it alone leave; tanh stays.
// CHECK: "stablehlo.tanh"
// CHECK: "ttir.host_op"
// CHECK-SAME: stablehlo.cosine
// CHECK-SAME: (tensor<4xf64>) -> tensor<4xf64>
// CHECK: {ttcore.host_fallback}
func.func @main(%x: tensor<4xf64>, %y: tensor<4xf32>) -> (tensor<4xf64>, tensor<4xf32>) {
  %0 = stablehlo.cosine %x : tensor<4xf64>
  %1 = stablehlo.tanh %y : tensor<4xf32>
  return %0, %1 : tensor<4xf64>, tensor<4xf32>
}
