// Each tensor of the device is freed behind its last reader, and not before.
// RUN: opscope opt -p ttir-to-ttnn,ttnn-deallocate %s | filecheck %s

// CHECK: %[[X:[0-9]+]] = "ttnn.to_device"
// CHECK-NEXT: %[[Y:[0-9]+]] = "ttnn.exp"(%[[X]])
// CHECK-NEXT: %[[Z:[0-9]+]] = "ttnn.add"(%[[X]], %[[Y]])
// CHECK-DAG: "ttnn.deallocate"(%[[X]])
// CHECK-DAG: "ttnn.deallocate"(%[[Y]])
// CHECK-NEXT: %[[OUT:[0-9]+]] = "ttnn.from_device"(%[[Z]])
// CHECK-NEXT: "ttnn.deallocate"(%[[Z]])
// CHECK-NOT: ttnn.deallocate
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = "ttir.exp"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = "ttir.add"(%x, %0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %1 : tensor<32x32xf32>
}
