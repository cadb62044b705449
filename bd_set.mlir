func.func @main(%x: tensor<8x3xf32>, %n: tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<8, ?>> {
%0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<8, ?>>
return %0 : tensor<?x3xf32, #stablehlo.bounds<8, ?>>
}