func.func @main(%x: tensor<?x3xf32, #stablehlo.bounds<8, ?>>) -> tensor<3xf32> {
%c = stablehlo.constant dense<0.0> : tensor<f32>
 %1 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : (tensor<?x3xf32, #stablehlo.bounds<8, ?>>, tensor<f32>) -> tensor<3xf32>
 return %1 : tensor<3xf32>
}