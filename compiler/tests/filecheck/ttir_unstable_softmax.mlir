// A softmax no longer subtracts its maximum; an exponential that something else reads keeps it.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-unstable-softmax %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<4x8xf32>):
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[SHIFTED:[0-9]+]] = "ttir.subtract"(%[[X]], %{{[0-9]+}})
  // CHECK-NEXT: %[[E:[0-9]+]] = "ttir.exp"(%[[X]])
  // CHECK: "ttir.div"(%[[E]], %{{[0-9]+}})
  // CHECK-NEXT: "ttir.exp"(%[[SHIFTED]])
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<4x8xf32>
  %3 = stablehlo.exponential %2 : tensor<4x8xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %6 = stablehlo.divide %3, %5 : tensor<4x8xf32>
  %7 = stablehlo.exponential %2 : tensor<4x8xf32>
  return %6, %7 : tensor<4x8xf32>, tensor<4x8xf32>
}
