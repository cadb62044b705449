// What moves elements of block floats writes 16 bits.
// RUN: opscope opt -p 'ttir-to-ttnn{data-format="Bfp8_b"},ttnn-workaround' %s | filecheck %s
// CHECK-DAG: #[[BLOCK:ttnn_layout[0-9]*]] = {{.*}}memref<1x2x!ttcore.tile<32x32, bfp_bf8>, #ttnn.buffer_type<dram>>
// CHECK-DAG: #[[HALF:ttnn_layout[0-9]*]] = {{.*}}memref<1x2x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>
// CHECK: "ttnn.permute"{{.*}} -> tensor<32x64xf32, #[[HALF]]>
// CHECK-NEXT: "ttnn.exp"{{.*}}(tensor<32x64xf32, #[[HALF]]>) -> tensor<32x64xf32, #[[BLOCK]]>
func.func @main(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %0 = "ttir.permute"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %1 = "ttir.exp"(%0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}
