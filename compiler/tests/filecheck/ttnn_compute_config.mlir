// Dst is 32 bits wide in the matrix unit, and 16 for what the vector unit computes in bfloat16.
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-compute-config{math-fidelity="LoFi"}' %s | filecheck %s
// RUN: opscope opt -p 'ttir-to-ttnn{board="e150"},ttnn-compute-config{board="e150"}' %s | filecheck %s --check-prefix=E150
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-compute-config{numerics="ttnn" math-fidelity=""}' %s | filecheck %s --check-prefix=TTNN

// TTNN: "ttnn.matmul"{{.*}}<math_fidelity = hifi2, fp32_dest_acc_en = false, packer_l1_acc = true>
// TTNN: "ttnn.tanh"{{.*}}<math_fidelity = hifi4, fp32_dest_acc_en = false>
// CHECK: "ttnn.matmul"{{.*}}compute_config = #ttnn.device_compute_kernel_config<math_fidelity = lofi, fp32_dest_acc_en = true>
// CHECK: "ttnn.tanh"{{.*}}compute_config = #ttnn.device_compute_kernel_config<math_fidelity = lofi, fp32_dest_acc_en = false>
// E150: "ttnn.matmul"{{.*}}math_fidelity = hifi4, fp32_dest_acc_en = false>
// E150: "ttnn.tanh"{{.*}}math_fidelity = hifi4, fp32_dest_acc_en = false>
func.func @main(%x: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = "ttir.matmul"(%x, %x) <{transpose_a = false, transpose_b = false}> : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %1 = "ttir.tanh"(%0) : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}
