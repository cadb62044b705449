// Host tensors become tiles, move to DRAM, and results come back. The format of floats is an option.
// RUN: opscope opt -p ttir-to-ttnn %s | filecheck %s
// RUN: opscope opt -p 'ttir-to-ttnn{data-format="Bfp8_b"}' %s | filecheck %s --check-prefix=BFP8

// CHECK-DAG: #[[HOST:ttnn_layout[0-9]*]] = {{.*}}memref<64x40xf32, #ttnn.buffer_type<system_memory>>
// CHECK-DAG: #[[DRAM:ttnn_layout[0-9]*]] = {{.*}}memref<2x2x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>
// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<64x40xf32, #[[HOST]]>):
// CHECK: %[[CARD:[0-9]+]] = "ttnn.get_device"()
// CHECK-NEXT: %[[TILES:[0-9]+]] = "ttnn.to_layout"(%[[X]]) <{layout = #ttnn.layout<tile>}>
// CHECK-NEXT: %[[IN:[0-9]+]] = "ttnn.to_device"(%[[TILES]], %[[CARD]])
// CHECK-NEXT: %[[Y:[0-9]+]] = "ttnn.divide"(%[[IN]], %[[IN]]) : (tensor<64x40xf32, #[[DRAM]]>
// CHECK-NEXT: %[[OUT:[0-9]+]] = "ttnn.from_device"(%[[Y]])
// CHECK-NEXT: %[[ROWS:[0-9]+]] = "ttnn.to_layout"(%[[OUT]]) <{layout = #ttnn.layout<row_major>}>
// CHECK-NEXT: "func.return"(%[[ROWS]])
// BFP8: memref<2x2x!ttcore.tile<32x32, bfp_bf8>, #ttnn.buffer_type<dram>>, <interleaved>>
func.func @main(%x: tensor<64x40xf32>) -> tensor<64x40xf32> {
  %0 = "ttir.div"(%x, %x) : (tensor<64x40xf32>, tensor<64x40xf32>) -> tensor<64x40xf32>
  // CHECK-NOT: ttnn.tanh
  %1 = "ttir.tanh"(%x) : (tensor<64x40xf32>) -> tensor<64x40xf32>
  return %0 : tensor<64x40xf32>
}
