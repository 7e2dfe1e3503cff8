# Attention by cuDNN beside our kernels: what it makes of the attentions of these models, gradients of both, the same bits in
# a rerun and without a graph, and the times that --attention auto decides by. Models called head64 and head128 need torch
# where they are packed.
attended=(${FSDP_GPU_ATTENDED:-gpt2-head64-bf16 llama-bf16 head64 head128})

pack() {
  local name steps step options
  steps=$(mktemp -d)
  for name in "${attended[@]}"; do
    locate_model "$name" "$steps" || exit 1
    if [ "$step" = "$root/test/fixtures/$name" ]; then
      pack_expected "$name" && compile "$name-gradients" "$step" --optimizer sgd:lr=1 --mesh shard=1 || exit 1
    fi
    compile "attention-$name" "$step" --optimizer-file "$step/optimizer.mlir" --mesh shard=1 "${options[@]}" || exit 1
  done
  rm -r "$steps"
}

# A learning rate so large that a parameter's own value is lost in its update leaves the gradient.
differentiate() {
  train "$1-$2" "$1-gradients" --steps 1 --lr 1152921504606846976 --attention "$2"
}

gradients() {
  differentiate "$1" own && differentiate "$1" cudnn &&
    compare gradients "$1-cudnn" "$1-own" "$here/fixtures/$1/expect.json"
}

# run_as NAME AS OPTION...
run_as() {
  train "$1-$2" "attention-$1" --steps 8 --lr 0.0001 --log-every 1000000 "${@:3}"
}

bits() {
  run_as "$1" first --attention cudnn && run_as "$1" again --attention cudnn &&
    run_as "$1" calls --attention cudnn --graph off && compare bits "$1-first" "$1-again" &&
    compare bits "$1-first" "$1-calls"
}

# What is decided of each kind of attention, by which times; then the medians of steps.
times() {
  local by
  FSDP_CUDA_CACHE=none program "attention-$1" --device cuda --init seed=0 --data random:seed=0 --steps 1 --lr 0.0001 \
    --attention auto | grep "attention: " || return
  for by in own cudnn; do
    run_as "$1" "$by" --attention "$by" || return
    python3 "$here/gpu/compare.py" median "$work/$1-$by/metrics.jsonl" "$1, --attention $by"
  done
}

run() {
  local name said
  said=$(program "attention-${attended[0]}" --device cuda --init seed=0 --data random:seed=0 --steps 1 --lr 0.0001 \
    --attention cudnn 2>&1)
  [[ $said != *"cannot open cuDNN"* ]] || skip "$said"
  echo "$said" | grep "attention: "
  for name in "${attended[@]}"; do
    [ ! -d "$here/fixtures/$name" ] || expect "$name, gradients by cuDNN and by our kernels" gradients "$name"
    expect "$name, a rerun and call by call" bits "$name"
    expect "$name, times" times "$name"
  done
}
