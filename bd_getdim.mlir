func.func @main(%x: tensor<?x3xf32, #stablehlo.bounds<8, ?>>) -> tensor<i32> {
%0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32, #stablehlo.bounds<8, ?>>) -> tensor<i32>
return %0 : tensor<i32>
}