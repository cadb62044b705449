// What was compiled for another board: shards over cores that this one lacks, formats that it lacks.
// RUN: opscope opt -p 'ttir-to-ttnn{board="p150"},ttnn-compute-config{board="p150"},ttnn-optimizer{board="p150"},ttnn-operation-validation-and-fallback{board="n150"}' %s | filecheck %s
// RUN: opscope opt -p 'ttir-to-ttnn{board="n150"},ttnn-operation-validation-and-fallback{board="e150"}' %s | filecheck %s --check-prefix=GRAYSKULL
// RUN: opscope opt -p 'ttir-to-ttnn,ttnn-compute-config,ttnn-optimizer,ttnn-operation-validation-and-fallback' %s | filecheck %s --check-prefix=SAME

// CHECK: "ttnn.exp"{{.*}}memory_config = #ttnn.memory_config<#ttnn.buffer_type<l1>, <interleaved>>
// CHECK-SAME: ttnn.fallback = "l1 interleaved: 110x1 cores, n150 has 8x8"
// CHECK: "ttnn.neg"
// CHECK-NOT: memory_config
// CHECK-SAME: ttnn.fallback = "dram: 110x1 cores, n150 has 8x8; interleaved {{[0-9,]+}} bytes in a core, {{[0-9,]+}} are free"
// CHECK: "ttnn.from_device"
// GRAYSKULL: "ttnn.to_layout"{{.*}}ttnn.fallback = "Float16_b: Dst of e150 holds no Float32"
// GRAYSKULL: "ttnn.exp"{{.*}}ttnn.fallback = "Float16_b: Dst of e150 holds no Float32"
// SAME-NOT: ttnn.fallback
func.func @main(%x: tensor<3520x512xf32>, %y: tensor<3520x8192xf32>) -> (tensor<3520x512xf32>, tensor<3520x8192xf32>) {
  %0 = "ttir.exp"(%x) : (tensor<3520x512xf32>) -> tensor<3520x512xf32>
  %1 = "ttir.abs"(%0) : (tensor<3520x512xf32>) -> tensor<3520x512xf32>
  %2 = "ttir.neg"(%y) : (tensor<3520x8192xf32>) -> tensor<3520x8192xf32>
  %3 = "ttir.abs"(%2) : (tensor<3520x8192xf32>) -> tensor<3520x8192xf32>
  return %1, %3 : tensor<3520x512xf32>, tensor<3520x8192xf32>
}
