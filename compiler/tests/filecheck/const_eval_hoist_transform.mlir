// What is computed of parameters and constants alone goes to a function of its own, computed once.
// RUN: opscope opt -p 'tt-populate-argument-types{argument-types="main=input,parameter,constant"},const-eval-hoist-transform' %s | filecheck %s
// CHECK: sym_name = "main"
// CHECK: %[[W:[0-9]+]] = "ttcore.load_cached"(%w, %s) <{callee = @main_const_eval_0}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[Y:[0-9]+]] = "ttir.add"(%x, %[[W]])
// CHECK-NEXT: "func.return"(%[[Y]])
// CHECK: sym_name = "main_const_eval_0"
// CHECK: "ttir.full"
// CHECK-NEXT: "ttir.multiply"
// CHECK-NEXT: "ttir.subtract"
// CHECK-NEXT: "func.return"
// CHECK: {ttcore.function_type = "const_eval"}
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.full"() <{shape = array<i32>, fill_value = 2.000000e+00 : f32}> : () -> tensor<f32>
  %1 = "ttir.multiply"(%w, %0) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = "ttir.subtract"(%1, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "ttir.add"(%x, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
