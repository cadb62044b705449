func.func @main(%x: tensor<8x3xf32>) -> tensor<3xf32> {
%c = stablehlo.constant dense<0.0> : tensor<f32>
 %n = stablehlo.constant dense<5> : tensor<i32>
 %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<8, ?>>
 %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<?x3xf32, #stablehlo.bounds<8, ?>>, tensor<f32>) -> tensor<3xf32>
 return %1 : tensor<3xf32>
}