"""Files that tools refuse, in the working directory."""
import gzip

STEP = """func.func @forward_backward(%w: tensor<SHAPExf32> {fsdp.param = {fqn = "w"}})
    -> (tensor<f32> {fsdp.loss}, tensor<SHAPExf32> {fsdp.grad = {fqn = "w"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %w : tensor<f32>, tensor<SHAPExf32>
}
"""
OPTIMIZER = """// PAD
func.func private @update(%p: tensor<?xf32>, %g: tensor<?xf32>) -> tensor<?xf32> {
  %s = arith.addf %p, %g : tensor<?xf32>
  return %s : tensor<?xf32>
}
func.func @optimizer(%p: tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}},
                     %g: tensor<?xf32> {fsdp.optimizer = {role = "grad", name = "grad"}})
    -> (tensor<?xf32> {fsdp.optimizer = {role = "param", name = "param"}}) {
  %s = call @update(%p, %g) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}
"""


def write(name, data):
    with open(name, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


good = STEP.replace("SHAPE", "4") + "// " + "x" * 1000 + "\n"
write("good.mlir", good)
write("empty.mlir", "")
write("optimizer.mlir", OPTIMIZER)
write("both.mlir", good + OPTIMIZER)
with gzip.open("bomb.mlir.gz", "wb", 1) as file:
    for _ in range(1100):
        file.write(bytes(1 << 20))
write("cut.mlir.gz", gzip.compress(good.encode())[:-20])
write("brackets.mlir", "module attributes {a = " + "[" * 20000 + "]" * 20000 + "} {}\n")
write("shape.mlir", STEP.replace("SHAPE", "x".join(["1"] * 100000)))
write("rank.mlir", STEP.replace("SHAPE", "x".join(["1"] * 65)))
write("zero.mlir", b"module {\n\0}\n")
write("bom.mlir", "\ufeff" + good)
write("cut.bc", b"ML\xefR\x0d")
write("aliases.mlir", "#a0 = [0]\n" +
      "".join(f"#a{i + 1} = [#a{i}]\n" for i in range(20000)) +
      "func.func private @f() attributes {a = #a20000}\n")
write("array.mlir", "module attributes {a = array<index: 1>} {}\n")
write("iterators.mlir", """#id = affine_map<(i) -> (i)>
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["paralle"]}
      ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
""")
write("transpose.mlir", """func.func @f(%a: tensor<4x5xf32>, %b: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %0 = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%b : tensor<5x4xf32>) permutation = [1, 0 0]
  return %0 : tensor<5x4xf32>
}
""")
