// Level 1: products read and write Bfp8_b, other ops keep their formats. Level 2: those have 16 bits.
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-mixed-precision' %s | filecheck %s
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-mixed-precision{level=2}' %s | filecheck %s --check-prefix=TWO
// CHECK-DAG: #[[NARROW:ttnn_layout[0-9]*]] = {{.*}}memref<2x1x!ttcore.tile<32x32, bfp_bf8>, #ttnn.buffer_type<dram>>
// CHECK-DAG: #[[FULL:ttnn_layout[0-9]*]] = {{.*}}memref<2x1x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>
// CHECK: "ttnn.matmul"{{.*}} -> tensor<64x32xf32, #[[NARROW]]>
// CHECK-NEXT: "ttnn.exp"{{.*}}(tensor<64x32xf32, #[[NARROW]]>) -> tensor<64x32xf32, #[[FULL]]>
// TWO-DAG: #[[HALF:ttnn_layout[0-9]*]] = {{.*}}memref<2x1x!ttcore.tile<32x32, f16>, #ttnn.buffer_type<dram>>
// TWO: "ttnn.exp"{{.*}} -> tensor<64x32xf32, #[[HALF]]>
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x32xf32>) -> tensor<64x32xf32> {
  %0 = "ttir.matmul"(%x, %w) <{transpose_a = false, transpose_b = false}> : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %1 = "ttir.exp"(%0) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}
