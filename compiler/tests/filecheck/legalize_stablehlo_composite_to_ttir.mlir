// A composite that names an op of ttir is that op; any other, of chlo too, is its decomposition, which goes with it.
// RUN: opscope opt --legalize-stablehlo-composite-to-ttir %s | filecheck %s
// RUN: ttmlir-opt --stablehlo-to-ttir-pipeline %s | FileCheck %s --check-prefix=PIPELINE
// CHECK: sym_name = "main"
// CHECK: %[[A:[0-9]+]] = "ttir.gelu"(%{{.*}}) <{approximate = "tanh"}>
// CHECK: %[[B:[0-9]+]] = "ttir.rms_norm"(%[[A]], %{{.*}}) <{{.*}}epsilon
// CHECK: %[[C:[0-9]+]] = "stablehlo.tanh"(%[[B]])
// CHECK: %[[D:[0-9]+]] = "stablehlo.tanh"(%[[C]])
// CHECK: "func.return"(%[[D]])
// CHECK-NOT: func.func
// PIPELINE: "ttir.gelu"
// PIPELINE: "ttir.rms_norm"
// PIPELINE: "ttir.tanh"
// PIPELINE: "ttir.tanh"
func.func @main(%x: tensor<4x32xf32>, %w: tensor<32xf32>) -> tensor<4x32xf32> {
  %0 = stablehlo.composite "tenstorrent.gelu_tanh" %x {decomposition = @inner} : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %1 = stablehlo.composite "tenstorrent.rms_norm" %0, %w {composite_attributes = {epsilon = 9.99999974E-6 : f32, normalized_shape = dense<32> : tensor<1xi64>}, decomposition = @norm} : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
  %2 = stablehlo.composite "chlo.erf_inv" %1 {decomposition = @inner} : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %3 = stablehlo.composite "mine.tanh" %2 {decomposition = @inner} : (tensor<4x32xf32>) -> tensor<4x32xf32>
  return %3 : tensor<4x32xf32>
}
func.func private @norm(%x: tensor<4x32xf32>, %w: tensor<32xf32>) -> tensor<4x32xf32> {
  return %x : tensor<4x32xf32>
}
func.func private @inner(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %0 = stablehlo.tanh %x : tensor<4x32xf32>
  return %0 : tensor<4x32xf32>
}
