// A loop whose turns are known becomes as many copies of its body; one that depends on an input stays.
// RUN: opscope opt -p stablehlo-to-ttir,ttir-unroll-loops %s | filecheck %s

// CHECK: ^bb0(%[[X:[0-9]+]]: tensor<4xf32>, %[[N:[0-9]+]]: tensor<i32>):
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  // CHECK: %[[ONCE:[0-9]+]] = "ttir.cos"(%[[X]])
  // CHECK: %[[TWICE:[0-9]+]] = "ttir.cos"(%[[ONCE]])
  // CHECK-NOT: "ttir.cos"(%[[TWICE]])
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4xf32> cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.cosine %y : tensor<4xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
  }
  // CHECK: "ttir.while"(%{{[0-9]+}}, %[[TWICE]],
  %1:2 = stablehlo.while(%i = %zero, %y = %0#1) : tensor<i32>, tensor<4xf32> cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.cosine %y : tensor<4xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
  }
  return %0#1, %1#1 : tensor<4xf32>, tensor<4xf32>
}
