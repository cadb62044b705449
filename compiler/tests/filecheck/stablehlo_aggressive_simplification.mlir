// RUN: opscope opt -p stablehlo-aggressive-simplification %s | FileCheck %s
// RUN: ttmlir-opt --stablehlo-to-ttir-pipeline="enable-aggressive-simplification=true" %s | FileCheck %s --check-prefix=FRONT
// RUN: ttmlir-opt --stablehlo-to-ttir-pipeline="enable-aggressive-simplification=false" %s | FileCheck %s --check-prefix=PLAIN

// CHECK: sym_name = "nothing"
// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<4x8xf32>
// CHECK-NOT: "stablehlo.add"
// CHECK-NOT: "stablehlo.subtract"
// CHECK-NOT: "stablehlo.convert"
// CHECK: "func.return"(%[[X]])
// FRONT-LABEL: func.func @nothing
// FRONT-NEXT: return %arg0
// PLAIN-LABEL: func.func @nothing
// PLAIN: "ttir.typecast"
// PLAIN: "ttir.add"
// PLAIN: "ttir.subtract"
func.func @nothing(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %0 = stablehlo.convert %x : tensor<4x8xf32>
  %1 = stablehlo.add %0, %zero : tensor<4x8xf32>
  %2 = stablehlo.subtract %1, %zero : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A broadcast that repeats nothing, a transpose that moves one dim of one element.
// FRONT-LABEL: func.func @reshapes
// FRONT-NEXT: "ttir.reshape"(%arg0) <{shape = [1 : i32, 4 : i32, 1 : i32, 8 : i32]}>
// FRONT-NEXT: "ttir.reshape"({{.*}}) <{shape = [4 : i32, 1 : i32, 1 : i32, 8 : i32]}>
// FRONT-NEXT: return
func.func @reshapes(%x: tensor<4x8xf32>) -> tensor<4x1x1x8xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1, 3] : (tensor<4x8xf32>) -> tensor<1x4x1x8xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0, 2, 3] : (tensor<1x4x1x8xf32>) -> tensor<4x1x1x8xf32>
  return %1 : tensor<4x1x1x8xf32>
}

// A transpose that moves elements stays.
// FRONT-LABEL: func.func @moves
// FRONT-NEXT: "ttir.permute"(%arg0) <{permutation = array<i64: 1, 0>}>
func.func @moves(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// FRONT-LABEL: func.func @ranges
// FRONT: "ttir.constant"() <{value = dense<0> : tensor<1x5xi32>}>
// FRONT: "ttir.arange"() <{arange_dimension = 0 : i64, end = 5 : si64, start = 0 : si64, step = 1 : si64}> : () -> tensor<5xi32>
// FRONT: "ttir.broadcast"({{.*}}) <{broadcast_dimensions = array<i64: 3, 1>}>
// FRONT: "ttir.constant"() <{value = dense<5> : tensor<i32>}>
func.func @ranges(%x: tensor<3x5xi32>) -> (tensor<1x5xi32>, tensor<3x5xi32>, tensor<i32>) {
  %0 = stablehlo.iota dim = 0 : tensor<1x5xi32>
  %1 = stablehlo.iota dim = 1 : tensor<3x5xi32>
  %2 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x5xi32>) -> tensor<i32>
  return %0, %1, %2 : tensor<1x5xi32>, tensor<3x5xi32>, tensor<i32>
}

// FRONT-LABEL: func.func @chosen
// FRONT-NEXT: return %arg1
func.func @chosen(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %no = stablehlo.constant dense<false> : tensor<4xi1>
  %0 = stablehlo.select %no, %x, %y : tensor<4xi1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
