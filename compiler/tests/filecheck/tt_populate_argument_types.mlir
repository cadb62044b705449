// RUN: opscope opt --tt-populate-argument-types='argument-types=main=input,parameter' %s | filecheck %s
// CHECK: arg_attrs = [{ttcore.argument_type = #ttcore.argument_type<input>}, {ttcore.argument_type = #ttcore.argument_type<parameter>}]
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.add"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
