# Two ranks: as processes by NCCL and by the host's memory; on several GPUs as threads, issued call by call, and four ranks,
# too. What ranks add up by `--reduction exact` has the bits of processors, so `sums`, whose kernels work element by
# element, has them as a whole: processors' are packed. A model's products have other bits than a processor's, but those of
# all ways are the same, and losses are as near to PyTorch's as the fixture allows; so they are with NCCL's own sums.
modelled=(${FSDP_GPU_FIXTURES:-gpt2 gpt2-head64-bf16})
meshes=(shard=2 shard=4 shard=2,replicate=2)

# name_of MESH: of its programs.
name_of() {
  echo "${1//[^a-z0-9]/}"
}

# sum_on_processors PROGRAM MESH STEP OPTION...: what they make of it, as expected/PROGRAM.
sum_on_processors() {
  local made=$work/$1 step=$3
  mkdir -p "$made" "$packs/expected/$1"
  quietly "$bin/fsdp-compile" "$step/model.mlir" --optimizer sgd:lr=1 --mesh "$2" --march x86-64-v3 "${@:4}" -o "$made/train" &&
    quietly "$made/train" --params "$step/params.safetensors" --data "$step/data.safetensors" --lr 1 --steps 1 --quiet \
      --save "$made/saved" && cp "$made"/saved/step-*/*.safetensors "$packs/expected/$1/"
}

pack() {
  local fixture steps=$work/sums mesh name bf16=(--param-dtype bf16 --reduce-dtype bf16)
  for fixture in "${modelled[@]}"; do
    pack_expected "$fixture" && pack_trained "$fixture" shard=2 --cluster h100-sxm || return
  done
  python3 -B "$here/gpu/steps.py" "$root" "$steps" sums || return
  for mesh in "${meshes[@]}"; do
    name=$(name_of "$mesh")
    pack_step "$name-" "$steps/sums" --mesh "$mesh" && pack_step "$name-bf16-" "$steps/sums" --mesh "$mesh" "${bf16[@]}" ||
      return
    job sum_on_processors "$name-sums" "$mesh" "$steps/sums"
    job sum_on_processors "$name-bf16-sums" "$mesh" "$steps/sums" "${bf16[@]}"
  done
}

# check_sums PROGRAM RANKS OPTION...
check_sums() {
  local inputs=$here/steps/$1
  train "$1" "$1" -n "$2" --params "$inputs/params.safetensors" --data "$inputs/data.safetensors" --lr 1 --steps 1 "${@:3}" &&
    python3 "$here/gpu/compare.py" bits "$work/$1/saved" "$here/expected/$1"
}

# check_same FIXTURE OPTION...
check_same() {
  train_expected "$1-other" "$1" 2 "${@:2}" && compare_bits "$1-ranks" "$1-other"
}

run() {
  local found gpus nccl ways fixture mesh program ranks way
  found=$(python3 "$here/gpu/libraries.py") || { echo "$found"; exit 1; }
  gpus=$(sed -n 's/^gpus //p' <<<"$found") nccl=$(sed -n 's/^nccl //p' <<<"$found")
  echo "$gpus GPUs, NCCL $nccl"
  ways=("--backend tcp" "--backend tcp --channel host")
  # Ranks that share a GPU take seconds to meet.
  if [ "$gpus" -ge 2 ]; then
    ways+=("--backend local" "--backend local --channel host" "--backend tcp --graph off")
  fi
  for mesh in "${meshes[@]}"; do
    ranks=4
    [ "$mesh" != shard=2 ] || ranks=2
    if [ "$ranks" -gt "$gpus" ] && [ "$ranks" -gt 2 ]; then
      echo "not run: $mesh, for which there are too few GPUs"
      continue
    fi
    for program in "$(name_of "$mesh")"{,-bf16}-sums; do
      for way in "${ways[@]}"; do
        expect "$program $way: the bits of processors" check_sums "$program" "$ranks" $way
      done
    done
  done
  for fixture in "${modelled[@]}"; do
    # Where NCCL does not go into a graph, the rest still says something.
    expect "$fixture ${ways[0]}" train_expected "$fixture-ranks" "$fixture" 2 ${ways[0]} ||
      expect "$fixture ${ways[0]} --graph off" train_expected "$fixture-ranks" "$fixture" 2 ${ways[0]} --graph off
    for way in "${ways[@]:1}"; do
      expect "$fixture $way: the same bits" check_same "$fixture" $way
    done
  done
  expect "${modelled[0]} ${ways[0]} --reduction nccl" train_expected nccl "${modelled[0]}" 2 ${ways[0]} --reduction nccl
}
