# The card, the driver and the libraries that the runtime will find, and one step.
pack() {
  pack_trained "${fixtures[0]}" shard=1
}

run() {
  if command -v nvidia-smi; then
    nvidia-smi
    nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv
  else
    echo "no nvidia-smi"
  fi
  command -v nvcc compute-sanitizer nsys
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' 2>/dev/null || echo "no torch"
  echo "FSDP_CUDA_LIBS=$FSDP_CUDA_LIBS"
  expect "driver, cuBLASLt and NCCL" python3 "$here/gpu/libraries.py"
  expect "one step" train facts "${fixtures[0]}-1" --steps 1
  cat "$work/facts/metrics.jsonl"
}
