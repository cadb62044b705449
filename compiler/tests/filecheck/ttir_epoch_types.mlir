// Locations tell what differentiation made; what has none is the optimizer's behind it, else its first reader's.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-epoch-types %s | filecheck %s

// CHECK: ^bb0(%[[W:[0-9]+]]: tensor<32x32xf32>, %[[X:[0-9]+]]: tensor<32x32xf32>, %[[M:[0-9]+]]: tensor<32x32xf32>):
// CHECK-NEXT: %[[Y:[0-9]+]] = "ttir.multiply"(%[[W]], %[[X]]) {buda.epoch_type = "forward"}
// CHECK-NEXT: %[[LOSS:[0-9]+]] = "ttir.tanh"(%[[Y]]) {buda.epoch_type = "forward"}
// CHECK-NEXT: %[[FOR:[0-9]+]] = "ttir.abs"(%[[X]]) {buda.epoch_type = "backward"}
// CHECK-NEXT: %[[G:[0-9]+]] = "ttir.multiply"(%[[LOSS]], %[[FOR]]) {buda.epoch_type = "backward"}
// CHECK-NEXT: %[[OLD:[0-9]+]] = "ttir.add"(%[[M]], %[[M]]) {buda.epoch_type = "optimizer"}
// CHECK-NEXT: %[[NEW:[0-9]+]] = "ttir.subtract"(%[[W]], %[[G]]) {buda.epoch_type = "optimizer"}
// CHECK-NEXT: %[[ALL:[0-9]+]] = "ttir.add"(%[[NEW]], %[[OLD]]) {buda.epoch_type = "optimizer"}
// CHECK-NEXT: "func.return"(%[[LOSS]], %[[ALL]])
func.func @main(%w: tensor<32x32xf32>, %x: tensor<32x32xf32>, %m: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %old = stablehlo.add %m, %m : tensor<32x32xf32>
  %0 = stablehlo.multiply %w, %x : tensor<32x32xf32> loc("jit(step)/jvp(loss)/mul")
  %1 = stablehlo.tanh %0 : tensor<32x32xf32> loc("jit(step)/jvp(loss)/tanh")
  %2 = stablehlo.abs %x : tensor<32x32xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<32x32xf32> loc("jit(step)/transpose(jvp(loss))/mul")
  %4 = stablehlo.subtract %w, %3 : tensor<32x32xf32> loc("jit(step)/optimizer/sub")
  %5 = stablehlo.add %4, %old : tensor<32x32xf32> loc("jit(step)/optimizer/add")
  return %1, %5 : tensor<32x32xf32>, tensor<32x32xf32>
}
