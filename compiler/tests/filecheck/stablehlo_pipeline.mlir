// RUN: ttmlir-opt --split-input-file --stablehlo-pipeline --stablehlo-to-ttir-pipeline %s | FileCheck %s

// Rows over x, K over y, as jax.shard_map writes it: the body takes the op's place. What is annotated comes as a part.
// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<8x4xf32>, %arg1: tensor<16x4xf32>
// CHECK: "ttir.mesh_shard"(%arg1)
// CHECK-SAME: shard_dims = array<i64: -1, 0>
// CHECK-SAME: shard_direction = #ttcore.shard_direction<full_to_shard>
// CHECK-SAME: shard_shape = array<i64: 4, 1>
// CHECK-SAME: shard_type = #ttcore.shard_type<devices>
// CHECK-SAME: -> tensor<4x4xf32>
// CHECK: "ttir.all_reduce"
// CHECK-SAME: cluster_axis = 1 : ui32
// CHECK-SAME: reduce_type = #ttcore.reduce_type<sum>
// CHECK: "ttir.mesh_shard"
// CHECK-SAME: shard_dims = array<i64: 0, -1>
// CHECK-SAME: shard_direction = #ttcore.shard_direction<shard_to_full>
// CHECK-SAME: shard_shape = array<i64: 2, 1>
// CHECK-SAME: -> tensor<16x4xf32>
module @manual {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<16x4xf32>) -> tensor<16x4xf32> {
    %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, [{"y"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%u: tensor<8x4xf32>, %v: tensor<4x4xf32>) {
      %1 = stablehlo.dot_general %u, %v, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %3 = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      sdy.return %2 : tensor<8x4xf32>
    } : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    return %0 : tensor<16x4xf32>
  }
}

// -----

// Annotations alone: XLA's partitioner writes the program of a device.
// CHECK: builtin.module @annotated
// CHECK: func.func public @main
// CHECK-SAME: %arg0: tensor<4x6xf32>
// CHECK: "ttir.tanh"
// CHECK-SAME: tensor<4x6xf32>
// CHECK: "ttir.mesh_shard"
// CHECK-SAME: shard_dims = array<i64: -1, 0>
// CHECK-SAME: shard_direction = #ttcore.shard_direction<shard_to_full>
// CHECK-SAME: shard_shape = array<i64: 2, 1>
module @annotated attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
    %0 = stablehlo.tanh %a : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// Each device keeps its part of what all have: one partition for each axis that the shapes leave to do.
// CHECK: "ttir.mesh_partition"
// CHECK-SAME: <{cluster_axis = 1 : ui32, dim = 0 : si32}> : (tensor<8x6xf32>) -> tensor<2x6xf32>
// CHECK: "ttir.mesh_partition"
// CHECK-SAME: <{cluster_axis = 0 : ui32, dim = 1 : si32}> : (tensor<2x6xf32>) -> tensor<2x3xf32>
// CHECK-NOT: func.func private
module @slices {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"y"}, {"x"}]>] manual_axes={"x", "y"} (%u: tensor<8x6xf32>) {
      %1 = stablehlo.composite "sdy.all_slice" %u {composite_attributes = {out_sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}, decomposition = @part} : (tensor<8x6xf32>) -> tensor<2x3xf32>
      sdy.return %1 : tensor<2x3xf32>
    } : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
  func.func private @part(%a: tensor<8x6xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.slice %a [0:2, 0:3] : (tensor<8x6xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
