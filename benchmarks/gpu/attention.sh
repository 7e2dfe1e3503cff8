# Attention by cuDNN beside our kernels: what it makes of the attentions of these models, gradients beside those of our
# kernels on the emulated driver, the same bits in a rerun and without a graph, and the times that --attention auto decides
# by, of steps that keep a card busy.
attended=(${FSDP_GPU_ATTENDED:-gpt2-head64-bf16 llama-bf16})

pack() {
  local name
  for name in "${attended[@]}"; do
    pack_gradients "$name" && pack_trained "$name" shard=1 || return
  done
  for name in "${busy[@]}"; do
    pack_model "$name" || return
  done
  join || return
  for name in "${attended[@]}"; do
    job emulate_gradients "$name"
  done
}

gradients() {
  differentiate "$1-cudnn-gradients" "$1" --attention cudnn && compare_gradients "$1-cudnn-gradients" "$1"
}

# run_as NAME AS PROGRAM OPTION...
run_as() {
  train "$1-$2" "$3" --steps "${FSDP_GPU_STEPS:-6}" --lr 0.0001 "${@:4}"
}

# bits NAME PROGRAM
bits() {
  run_as "$1" first "$2" --attention cudnn && run_as "$1" again "$2" --attention cudnn &&
    run_as "$1" calls "$2" --attention cudnn --graph off && compare_bits "$1-first" "$1-again" &&
    compare_bits "$1-first" "$1-calls"
}

# times NAME PROGRAM: what is decided of each kind of attention, by which times; then times of steps.
times() {
  FSDP_CUDA_CACHE=none time_steps "$1.attention-auto" "$2" --attention auto &&
    time_steps "$1.attention-own" "$2" --attention own && time_steps "$1.attention-cudnn" "$2" --attention cudnn
}

run() {
  local name words said
  program "${attended[0]}-1" --steps 1 --lr 0.0001 --attention cudnn
  said=$(limited "${words[@]}" 2>&1)
  [[ $said != *"cannot open cuDNN"* ]] || skip "$said"
  echo "$said" | grep "attention: "
  for name in "${attended[@]}"; do
    expect "$name, gradients by cuDNN" gradients "$name"
    expect "$name, a rerun and call by call" bits "$name" "$name-1"
  done
  for name in "${busy[@]}"; do
    expect "$name, a rerun and call by call" bits "$name" "$(program_of "$name")"
    expect "$name, times" times "$name" "$(program_of "$name")"
  done
}
