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

// Each device keeps its part of what all have: one partition for each axis that the shapes leave to do, in their order.
// CHECK: "ttir.mesh_partition"
// CHECK-SAME: <{cluster_axis = 0 : ui32, dim = 1 : si32}> : (tensor<8x6xf32>) -> tensor<8x3xf32>
// CHECK: "ttir.mesh_partition"
// CHECK-SAME: <{cluster_axis = 1 : ui32, dim = 0 : si32}> : (tensor<8x3xf32>) -> tensor<2x3xf32>
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

// -----

// As exporters without Shardy write it: the devices of a sharding say the mesh, calls where whole tensors are cut.
// CHECK: builtin.module @calls
// CHECK: func.func public @main
// CHECK-SAME: %arg0: tensor<4x3xf32>, %arg1: tensor<6x5xf32>
// CHECK: "ttir.mesh_shard"(%arg1)
// CHECK-SAME: shard_dims = array<i64: -1, 0>
// CHECK-SAME: shard_direction = #ttcore.shard_direction<full_to_shard>
// CHECK-SAME: shard_shape = array<i64: 2, 1>
// CHECK-SAME: -> tensor<3x5xf32>
// CHECK: "ttir.all_reduce"
// CHECK-SAME: cluster_axis = 1 : ui32
// CHECK: "ttir.all_to_all"
// CHECK-SAME: concat_dim = 1 : si32
// CHECK-SAME: replica_groups = dense
// CHECK-SAME: split_count = 2 : si32
// CHECK-SAME: split_dim = 0 : si32
// CHECK: "ttir.collective_permute"
// CHECK-SAME: source_target_pairs = dense
// CHECK: "ttir.all_reduce"
// CHECK-SAME: cluster_axis = 0 : ui32
// CHECK: "ttir.mesh_shard"
// CHECK-SAME: shard_dims = array<i64: 0, -1>
// CHECK-SAME: shard_direction = #ttcore.shard_direction<shard_to_full>
// CHECK-SAME: shard_shape = array<i64: 3, 1>
// CHECK-SAME: -> tensor<6x10xf32>
// CHECK-NOT: Sharding
module @calls attributes {mhlo.num_partitions = 6 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%a: tensor<12x6xf32> {mhlo.sharding = "{devices=[3,2]<=[6]}"}, %b: tensor<6x5xf32>) -> tensor<6x10xf32> {
    %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[3,2]<=[6]}"} : (tensor<12x6xf32>) -> tensor<12x6xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<12x6xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.custom_call @Sharding(%b) {mhlo.sharding = "{devices=[2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}"} : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {mhlo.sharding = "{manual}"} : (tensor<6x5xf32>) -> tensor<3x5xf32>
    %4 = call @body(%1, %3) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<2x10xf32>
    %5 = stablehlo.custom_call @Sharding(%4) {mhlo.sharding = "{manual}"} : (tensor<2x10xf32>) -> tensor<2x10xf32>
    %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {mhlo.sharding = "{devices=[3,1,2]<=[6] last_tile_dim_replicate}"} : (tensor<2x10xf32>) -> tensor<6x10xf32>
    return %6 : tensor<6x10xf32>
  }
  func.func private @body(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>) -> tensor<2x10xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5]]> : tensor<3x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %6 = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %2 = "stablehlo.all_to_all"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5]]> : tensor<3x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4x5xf32>) -> tensor<2x10xf32>
    %3 = "stablehlo.collective_permute"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<[[0, 2], [2, 0]]> : tensor<2x2xi64>}> : (tensor<2x10xf32>) -> tensor<2x10xf32>
    %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 2, 4], [1, 3, 5]]> : tensor<2x3xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %6 = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<2x10xf32>) -> tensor<2x10xf32>
    return %4 : tensor<2x10xf32>
  }
}

// -----

// Annotations of GSPMD alone are XLA's partitioner's; their devices say the mesh too.
// CHECK: builtin.module @annotated_without_shardy
// CHECK: %arg0: tensor<4x6xf32>
// CHECK: "ttir.mesh_shard"
// CHECK-SAME: shard_type = #ttcore.shard_type<replicate>
module @annotated_without_shardy attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%a: tensor<8x6xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<8x6xf32> {
    %0 = stablehlo.tanh %a : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}
