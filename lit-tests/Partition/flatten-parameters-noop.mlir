// Not a traced step: nothing changes, whatever the options say.
//
// RUN: fsdp-opt %s -o %t.before && fsdp-opt %s --fsdp-flatten-parameters='mesh=nonsense' -o %t.after && diff %t.before %t.after

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
