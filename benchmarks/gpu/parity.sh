# Losses and gradient norms of all steps that PyTorch's are known of, within the fixture's tolerance.
pack() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    pack_expected "$fixture" && pack_trained "$fixture" shard=1 || return
  done
}

run() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    expect "$fixture" train_expected "$fixture-parity" "$fixture" 1
  done
}
