// Tests of tt-mlir hold many functions, each under its own name, or many modules; their checks read what its tool prints.
// RUN: ttmlir-opt --split-input-file --stablehlo-to-ttir-pipeline %s | FileCheck %s
// RUN: ttmlir-opt --split-input-file --stablehlo-to-ttir-pipeline --ttir-to-ttnn-backend-pipeline="optimization-level=1 enable-fusing-pass=false" %s | FileCheck %s --check-prefix=UNFUSED
// RUN: ttmlir-opt --split-input-file --stablehlo-to-ttir-pipeline --ttir-to-ttnn-backend-pipeline="enable-fusing-pass=true enable-const-eval=false" %s | FileCheck %s --check-prefix=FUSED
// RUN: opscope opt --split-input-file --stablehlo-to-ttir-pipeline %s | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func public @smooth(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: %[[HALF:[0-9]+]] = "ttir.constant"() <{value = dense<5.000000e-01> : tensor<8x8xf32>}>
// CHECK: %[[SUM:[0-9]+]] = "ttir.add"(%arg0, %[[HALF]]) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: return
// UNFUSED-LABEL: func.func public @smooth(
// UNFUSED: "ttnn.max
// FUSED-LABEL: func.func public @smooth(
// FUSED: "ttnn.relu"
// GENERIC: "func.func"() <{{{.*}}sym_name = "smooth"
module @jit_smooth {
  func.func public @smooth(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %half = stablehlo.constant dense<0.5> : tensor<8x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %0 = stablehlo.add %x, %half : tensor<8x8xf32>
    %1 = stablehlo.maximum %0, %zero : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }

  // CHECK-LABEL: func.func public @square
  // CHECK-NEXT: "ttir.multiply"(%arg0, %arg0)
  // GENERIC: "func.func"() <{{{.*}}sym_name = "square"
  func.func public @square(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = call @times(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  // CHECK-NOT: @times
  func.func private @times(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.multiply %x, %y : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK: // -----
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: "ttir.tanh"(%arg0)
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
