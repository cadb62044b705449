// A chain stays in L1 in shards; a reduction of it lies there interleaved; what goes back to the host lies in DRAM.
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-compute-config,ttnn-optimizer' %s | filecheck %s
// CHECK-DAG: #[[SHARDS:ttnn_layout[0-9]*]] = {{.*}}<8x8>, memref<4x2x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>>
// CHECK: "ttnn.matmul"{{.*}}memory_config = #ttnn.memory_config<#ttnn.buffer_type<l1>, <block_sharded>>
// CHECK-NEXT: "ttnn.exp"({{.*}}memory_config = #ttnn.memory_config<#ttnn.buffer_type<l1>, <block_sharded>>
// CHECK-SAME: -> tensor<1024x512xf32, #[[SHARDS]]>
// CHECK-NEXT: "ttnn.max"({{.*}}memory_config = #ttnn.memory_config<#ttnn.buffer_type<l1>, <interleaved>>
// CHECK-NEXT: "ttnn.subtract"(
// CHECK-NOT: memory_config
// CHECK: "ttnn.from_device"
func.func @main(%x: tensor<1024x512xf32>, %w: tensor<512x512xf32>) -> tensor<1024x512xf32> {
  %0 = "ttir.matmul"(%x, %w) <{transpose_a = false, transpose_b = false}> : (tensor<1024x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
  %1 = "ttir.exp"(%0) : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %2 = "ttir.max"(%1) <{dim_arg = [1 : i32], keep_dim = true}> : (tensor<1024x512xf32>) -> tensor<1024x1xf32>
  %3 = "ttir.subtract"(%1, %2) : (tensor<1024x512xf32>, tensor<1024x1xf32>) -> tensor<1024x512xf32>
  return %3 : tensor<1024x512xf32>
}
