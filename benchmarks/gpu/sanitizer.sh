# compute-sanitizer's tools on one step with attention by tensor cores.
sanitized=(${FSDP_GPU_SANITIZED:-gpt2-head64-bf16})
tools=(${FSDP_GPU_TOOLS:-memcheck racecheck})

pack() {
  local fixture
  for fixture in "${sanitized[@]}"; do
    pack_trained "$fixture" shard=1 || return
  done
}

check() {
  local words
  program "$2-1" --graph off --lr 0.001 --steps 1 --quiet
  limited compute-sanitizer --tool "$1" --error-exitcode 9 "${words[@]}"
}

run() {
  local tool fixture
  command -v compute-sanitizer || skip "expected compute-sanitizer on PATH, found none"
  for fixture in "${sanitized[@]}"; do
    for tool in "${tools[@]}"; do
      expect "$tool of $fixture" check "$tool" "$fixture"
    done
  done
}
