# Two ranks, each on a GPU of its own where there are two: as threads and as processes, by NCCL and by the host's memory.
# What ranks add up by `--reduction exact` has the bits of processors, so `sums`, whose kernels work element by element, has
# them as a whole, on four ranks too. A model's products have other bits than a processor's, but those of all ways are the
# same, and losses are as near to PyTorch's as the fixture allows; so they are with NCCL's own sums.
modelled=(${FSDP_GPU_FIXTURES:-gpt2 gpt2-head64-bf16})
meshes=(shard=2 shard=4 shard=2,replicate=2)

pack() {
  local fixture steps mesh
  for fixture in "${modelled[@]}"; do
    pack_expected "$fixture" && pack_trained "$fixture" shard=2 --cluster h100-sxm || exit 1
  done
  steps=$(mktemp -d)
  python3 -B "$here/gpu/steps.py" "$root" "$steps" sums || exit 1
  for mesh in "${meshes[@]}"; do
    # An executable, since code for processors without bf16 calls a function of the runtime (Bf16Calls.cpp) to round to it,
    # which libfsdp-rt.so does not export.
    pack_step "${mesh//[^a-z0-9]/}-" "$steps/sums" --mesh "$mesh" --target cpu,cuda &&
      pack_step "${mesh//[^a-z0-9]/}-bf16-" "$steps/sums" --mesh "$mesh" --target cpu,cuda --param-dtype bf16 \
        --reduce-dtype bf16 --emit exe || exit 1
  done
  rm -r "$steps"
}

# sum NAME PROGRAM RANKS OPTION...
sum() {
  local inputs=$here/steps/$2
  train "$1" "$2" -n "$3" --params "$inputs/params.safetensors" --data "$inputs/data.safetensors" --lr 1 --steps 1 "${@:4}"
}

# check_sums PROGRAM RANKS OPTION...
check_sums() {
  sum "$1-cuda" "$@" && compare bits "$1-cpu" "$1-cuda"
}

# check_same FIXTURE OPTION...
check_same() {
  train_expected "$1-other" "$1" 2 "${@:2}" && compare bits "$1-ranks" "$1-other"
}

run() {
  local found gpus nccl ways fixture mesh program ranks way
  found=$(python3 "$here/gpu/libraries.py") || { echo "$found"; exit 1; }
  gpus=$(sed -n 's/^gpus //p' <<<"$found") nccl=$(sed -n 's/^nccl //p' <<<"$found")
  ways=("--backend tcp" "--backend local --channel host" "--backend tcp --channel host" "--backend tcp --graph off")
  if [ "$gpus" -ge 2 ] || [ "$nccl" -ge 23000 ]; then
    ways+=("--backend local")
  else
    echo "not run: threads by NCCL $nccl, which refuses threads that share a GPU (2.30 takes them)"
  fi
  echo "$gpus GPUs, NCCL $nccl"
  for mesh in "${meshes[@]}"; do
    for program in "${mesh//[^a-z0-9]/}"{,-bf16}-sums; do
      ranks=4
      [ "$mesh" != shard=2 ] || ranks=2
      expect "$program on processors" sum "$program-cpu" "$program" "$ranks" --device cpu
      for way in "${ways[@]}"; do
        expect "$program $way: the bits of processors" check_sums "$program" "$ranks" $way
      done
    done
  done
  for fixture in "${modelled[@]}"; do
    expect "$fixture ${ways[0]}" train_expected "$fixture-ranks" "$fixture" 2 ${ways[0]}
    for way in "${ways[@]:1}"; do
      expect "$fixture $way: the same bits" check_same "$fixture" $way
    done
  done
  expect "${modelled[0]} ${ways[0]} --reduction nccl" train_expected nccl "${modelled[0]}" 2 ${ways[0]} --reduction nccl
}
