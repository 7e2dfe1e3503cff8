# Runs that are one launch of a CUDA graph, and runs that are issued call by call, have the same bits.
graphed=(${FSDP_GPU_FIXTURES:-gpt2 resnet gpt2-head64-bf16})

pack() {
  local fixture
  for fixture in "${graphed[@]}"; do
    pack_trained "$fixture" shard=1 || exit 1
  done
}

check() {
  train "$1-captured" "$1-1" --steps 20 --graph on && train "$1-issued" "$1-1" --steps 20 --graph off &&
    compare bits "$1-captured" "$1-issued"
}

run() {
  local fixture
  for fixture in "${graphed[@]}"; do
    expect "$fixture" check "$fixture"
  done
}
