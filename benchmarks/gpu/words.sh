# Gradients of a model's first step on the card and on the emulated driver, which executes the same PTX. Products differ:
# cuBLASLt and tensor cores add up in orders of their own, and what follows differs with them. So words are counted, and
# each gradient is as near to the emulated one as the fixture allows a gradient to be to the exact one.
pack() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    pack_expected "$fixture" &&
      compile "$fixture-gradients" "$root/test/fixtures/$fixture" --optimizer sgd:lr=1 --mesh shard=1 || exit 1
  done
}

# A learning rate so large that a parameter's own value is lost in its update leaves the gradient.
differentiate() {
  "$1" "$2-$1" "$2-gradients" --steps 1 --lr 1152921504606846976
}

check() {
  differentiate train "$1" && differentiate train_emulated "$1" &&
    compare gradients "$1-train" "$1-train_emulated" "$here/fixtures/$1/expect.json"
}

run() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    expect "$fixture" check "$fixture"
  done
}
