# Runs that are one launch of a CUDA graph, and runs that are issued call by call, have the same bits, with dependent launch
# and without; the medians of their steps stand below each other.
graphed=(${FSDP_GPU_FIXTURES:-gpt2 resnet gpt2-head64-bf16})
launches=("on auto" "on off" "off auto" "off off")

pack() {
  local fixture
  for fixture in "${graphed[@]}"; do
    pack_trained "$fixture" shard=1 || exit 1
  done
}

# run_as FIXTURE GRAPH DEPENDENT
run_as() {
  train "$1-$2-$3" "$1-1" --steps 20 --graph "$2" --dependent-launch "$3" --log-every 1000000
}

check() {
  local fixture=$1 how
  for how in "${launches[@]}"; do
    run_as "$fixture" $how || return
  done
  for how in "${launches[@]:1}"; do
    compare bits "$fixture-on-auto" "$fixture-${how/ /-}" || return
  done
  for how in "${launches[@]}"; do
    python3 "$here/gpu/compare.py" median "$work/$fixture-${how/ /-}/metrics.jsonl" \
      "$fixture, --graph ${how/ / --dependent-launch }"
  done
}

run() {
  local fixture
  for fixture in "${graphed[@]}"; do
    expect "$fixture" check "$fixture"
  done
}
