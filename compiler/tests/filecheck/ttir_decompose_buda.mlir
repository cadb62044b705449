// What TT-Buda has no kernel for, in terms of what it has; what the host does is left alone.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-decompose-buda %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<32x64xf32>, %[[Y:[0-9]+]]: tensor<32x64xf32>, %[[B:[0-9]+]]: tensor<64xf32>):
func.func @main(%x: tensor<32x64xf32>, %y: tensor<32x64xf32>, %b: tensor<64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xi1>) {
  // CHECK: "ttir.full"() <{shape = array<i32: 1, 1>, fill_value = -1.000000e+00 : f32}>
  // CHECK: %[[NEG:[0-9]+]] = "ttir.multiply"(%[[X]], %{{[0-9]+}})
  %0 = stablehlo.negate %x : tensor<32x64xf32>
  // CHECK: %[[R:[0-9]+]] = "ttir.reciprocal"(%[[Y]])
  // CHECK-NEXT: %[[DIV:[0-9]+]] = "ttir.multiply"(%[[NEG]], %[[R]])
  %1 = stablehlo.divide %0, %y : tensor<32x64xf32>
  // CHECK: %[[HOST:[0-9]+]] = "ttir.broadcast"
  // CHECK: %[[BY:[0-9]+]] = "ttir.div"(%[[X]], %[[HOST]])
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
  %3 = stablehlo.divide %x, %2 : tensor<32x64xf32>
  // CHECK: %[[D:[0-9]+]] = "ttir.subtract"(%[[DIV]], %[[BY]])
  // CHECK: "ttir.relu"
  // CHECK-NOT: ttir.le
  // CHECK: %[[LE:[0-9]+]] = "ttir.relu"
  %4 = stablehlo.compare LE, %1, %3 : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xi1>
  // CHECK: %[[FIRST:[0-9]+]] = "ttir.multiply"(%[[LE]], %[[DIV]])
  // CHECK: %[[REST:[0-9]+]] = "ttir.subtract"(%{{[0-9]+}}, %[[LE]])
  // CHECK: %[[SECOND:[0-9]+]] = "ttir.multiply"(%[[REST]], %[[BY]])
  // CHECK-NEXT: %[[CHOSEN:[0-9]+]] = "ttir.add"(%[[FIRST]], %[[SECOND]])
  %5 = stablehlo.select %4, %1, %3 : tensor<32x64xi1>, tensor<32x64xf32>
  // CHECK: %[[ROOT:[0-9]+]] = "ttir.sqrt"(%[[CHOSEN]])
  // CHECK-NEXT: %[[RSQRT:[0-9]+]] = "ttir.reciprocal"(%[[ROOT]])
  %6 = stablehlo.rsqrt %5 : tensor<32x64xf32>
  // CHECK: %[[RELU:[0-9]+]] = "ttir.relu"(%[[RSQRT]])
  %zero = stablehlo.constant dense<0.0> : tensor<32x64xf32>
  %7 = stablehlo.maximum %6, %zero : tensor<32x64xf32>
  // CHECK-NEXT: %[[BOOL:[0-9]+]] = "ttir.typecast"(%[[LE]]) : (tensor<32x64xf32>) -> tensor<32x64xi1>
  // CHECK-NEXT: "func.return"(%[[RELU]], %[[CHOSEN]], %[[BOOL]])
  return %7, %5, %4 : tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xi1>
}
