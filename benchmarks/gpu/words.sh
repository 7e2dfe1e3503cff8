# Gradients of a model's first step on the card beside the emulated driver's, which executes the same PTX. Products differ:
# cuBLASLt and tensor cores add up in orders of their own, and what follows differs with them. So words are counted, and
# each gradient is as near to the emulated one as the fixture allows a gradient to be to the exact one.
pack() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    pack_gradients "$fixture" || return
  done
  join || return
  for fixture in "${fixtures[@]}"; do
    job emulate_gradients "$fixture"
  done
}

check() {
  differentiate "$1-words" "$1" && compare_gradients "$1-words" "$1"
}

run() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    expect "$fixture" check "$fixture"
  done
}
