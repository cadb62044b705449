"""The dialects in xDSL: stablehlo and chlo, ttcore, ttir, ttnn."""
