# compute-sanitizer's tools on one step in f32, and on one with attention by tensor cores.
sanitized=(${FSDP_GPU_FIXTURES:-gpt2 gpt2-head64-bf16})

pack() {
  local fixture
  for fixture in "${sanitized[@]}"; do
    pack_trained "$fixture" shard=1 || exit 1
  done
}

check() {
  LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} compute-sanitizer --tool "$1" --error-exitcode 9 \
    "$here/bin/fsdp-run" "$here/programs/$2-1.so" --device cuda --graph off --init seed=0 --data random:seed=0 --lr 0.001 \
    --steps 1 --quiet
}

run() {
  local tool fixture
  command -v compute-sanitizer || skip "expected compute-sanitizer on PATH, found none"
  for fixture in "${sanitized[@]}"; do
    for tool in memcheck racecheck synccheck initcheck; do
      expect "$tool of $fixture" check "$tool" "$fixture"
    done
  done
}
