# The card, the driver and the libraries that the runtime will find, and one step; and what of a run's ways does not work
# here, so that later parts do without.
pack() {
  pack_trained "${fixtures[0]}" shard=1
}

# step GRAPH DEPENDENT: in 15 s, so that there is time for other ways.
step() {
  local FSDP_GPU_RUN=15
  train facts "${fixtures[0]}-1" --steps 2 --lr 0.001 --graph "$1" --dependent-launch "$2"
}

# The first that a step runs with is what later parts take. A graph is asked for by `on`, which says why there is none.
choose() {
  local how graph dependent
  for how in "on auto" "on off" "off auto" "off off"; do
    read -r graph dependent <<<"$how"
    expect "a step, --graph $graph --dependent-launch $dependent" step "$graph" "$dependent" || continue
    graph=${graph/on/auto}
    echo "FSDP_GPU_GRAPH=$graph FSDP_GPU_DEPENDENT_LAUNCH=$dependent" >"$work/settings"
    echo "later parts: --graph $graph --dependent-launch $dependent"
    return
  done
}

run() {
  if command -v nvidia-smi; then
    nvidia-smi
    nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,clocks.max.sm,clocks.max.mem,power.limit --format=csv
  else
    echo "no nvidia-smi"
  fi
  command -v nvcc compute-sanitizer ncu nsys
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' 2>/dev/null || echo "no torch"
  echo "FSDP_CUDA_LIBS=$FSDP_CUDA_LIBS"
  expect "driver, cuBLASLt and NCCL" python3 "$here/gpu/libraries.py"
  choose
  [ ! -f "$work/facts/metrics.jsonl" ] || cat "$work/facts/metrics.jsonl"
}
