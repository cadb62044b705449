// A test in tt-mlir's own manner: its tools' names, its pipelines, its options.
// RUN: ttmlir-opt --stablehlo-to-ttir-pipeline %s | FileCheck %s --check-prefix=TTIR
// RUN: ttmlir-opt --stablehlo-to-ttir-pipeline --ttir-to-ttnn-backend-pipeline="system-desc-path=%system_desc_path% mesh-shape=1,1 compute-cfg-math-fidelity=hifi2" %s | FileCheck %s
// RUN: ttmlir-opt --stablehlo-to-ttir-pipeline %s | ttmlir-opt --ttir-to-ttnn-backend-pipeline | FileCheck %s --check-prefix=PIPED

// TTIR: "ttir.tanh"
// CHECK: "ttnn.tanh"{{.*}}math_fidelity = hifi2
// CHECK: "ttnn.deallocate"
// PIPED: "ttnn.tanh"{{.*}}math_fidelity = hifi4
module @jit_tanh attributes {} {
  func.func public @main(%x: tensor<64x128xbf16>) -> tensor<64x128xbf16> {
    %0 = stablehlo.tanh %x : tensor<64x128xbf16>
    return %0 : tensor<64x128xbf16>
  }
}
