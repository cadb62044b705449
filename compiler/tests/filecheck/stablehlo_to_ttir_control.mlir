// A branch is a function beside its caller; what it reads from outside is its argument.
// RUN: opscope opt -p stablehlo-to-ttir %s | filecheck %s

// CHECK: ^bb0(%[[P:[0-9]+]]: tensor<i1>, %[[X:[0-9]+]]: tensor<4xf32>):
// CHECK-NEXT: "ttir.if"(%[[P]], %[[X]]) <{programs = [@if_0, @if_1]}> : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: sym_name = "if_0"
// CHECK-NOT: ttir
// CHECK: ttcore.function_type = "program"
// CHECK: sym_name = "if_1"
// CHECK: "ttir.exp"
// CHECK: ttcore.function_type = "program"
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %1 = stablehlo.exponential %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
