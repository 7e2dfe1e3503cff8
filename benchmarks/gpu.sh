#!/usr/bin/env bash
# What a GPU makes of the programs that were only run on an emulated one.
#
#   benchmarks/gpu.sh pack FOLDER       here: compiles, and packs what the other machine needs (no MLIR, no CUDA)
#   FOLDER/gpu.sh [PART ...]            there: runs all parts, or these; each writes FOLDER/log/PART.log as it ends
#
# Parts, most valuable first, each at most 3 minutes: facts, words (one step on the device against the emulator, word by
# word), parity (losses against PyTorch's), memory (what the device holds against the plan), graph (a run with graphs
# against one without, bit for bit), sanitizer (compute-sanitizer, where there is one).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
parts=(facts words parity memory graph sanitizer)
fixtures=(gpt2 llama bert t5 resnet transformer mixed)
limit=180

pack() {
  local folder=$1 root fixture
  root=$(cd "$here/.." && pwd)
  mkdir -p "$folder/emulator"
  cp "$root/benchmarks/gpu.sh" "$root/benchmarks/gpu_compare.py" "$folder/"
  cp -L "$root"/build/test/cuda/emulator/lib*.so* "$folder/emulator/" ||
    { echo "expected build/test/cuda/emulator: build first" >&2; exit 1; }
  for fixture in "${fixtures[@]}"; do
    mkdir -p "$folder/$fixture"
    cp "$root/test/fixtures/$fixture"/{batches.safetensors,params.safetensors,expect.json} "$folder/$fixture/"
    "$root/build/bin/fsdp-compile" "$root/test/fixtures/$fixture/model.mlir" \
      --optimizer-file "$root/test/fixtures/$fixture/optimizer.mlir" --mesh shard=1 --target cpu,cuda \
      -o "$folder/$fixture/train" || exit 1
  done
  du -sh "$folder"
}

# train FIXTURE NAME OPTION...: 20 steps; metrics and a checkpoint under $work/FIXTURE-NAME.
train() {
  local fixture=$1 name=$2 out lr
  shift 2
  out=$work/$fixture-$name
  rm -rf "$out"; mkdir -p "$out"
  lr=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["hyper"]["lr"])' "$here/$fixture/expect.json")
  "$here/$fixture/train" --params "$here/$fixture/params.safetensors" --data "$here/$fixture/batches.safetensors" \
    --lr "$lr" --metrics "$out/metrics.jsonl" --save "$out/saved" --quiet "$@"
}

facts() {
  nvidia-smi
  nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv
  command -v nvcc compute-sanitizer nsys
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda)'
  echo "FSDP_CUDA_LIBS=${FSDP_CUDA_LIBS:-} VIRTUAL_ENV=${VIRTUAL_ENV:-}"
  train gpt2 facts --device cuda --steps 1 && cat "$work/gpt2-facts/metrics.jsonl"
}

words() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    echo "== $fixture"
    train "$fixture" device --device cuda --steps 1 &&
      FSDP_CUDA_LIBS=$here/emulator FSDP_EMULATOR_CAPABILITY=8.0 train "$fixture" emulator --device cuda --steps 1 &&
      python3 "$here/gpu_compare.py" words "$work/$fixture-device/saved" "$work/$fixture-emulator/saved"
  done
}

parity() {
  local fixture
  for fixture in "${fixtures[@]}"; do
    echo "== $fixture"
    train "$fixture" parity --device cuda --steps 20 &&
      python3 "$here/gpu_compare.py" parity "$work/$fixture-parity/metrics.jsonl" "$here/$fixture/expect.json"
  done
}

memory() {
  local pid
  "$here/gpt2/train" --describe | python3 -c 'import json, sys; print("arena", json.load(sys.stdin)["arena"])'
  train gpt2 memory --device cuda --steps 20000 & pid=$!
  sleep 10
  nvidia-smi --query-compute-apps=pid,used_memory --format=csv
  kill "$pid"; wait "$pid"
}

graph() {
  local fixture
  for fixture in gpt2 resnet; do
    train "$fixture" captured --device cuda --steps 20 --graph on && train "$fixture" eager --device cuda --steps 20 --graph off &&
      python3 "$here/gpu_compare.py" bits "$work/$fixture-captured/saved" "$work/$fixture-eager/saved"
  done
}

sanitizer() {
  local tool
  command -v compute-sanitizer || { echo "no compute-sanitizer: skipped"; return; }
  for tool in memcheck racecheck synccheck initcheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/gpt2/train" --device cuda --graph off \
      --params "$here/gpt2/params.safetensors" --data "$here/gpt2/batches.safetensors" --lr 0.001 --steps 1 --quiet
    echo "$tool: exit $?"
  done
}

if [ "${1:-}" = pack ]; then
  [ $# = 2 ] || { echo "usage: $0 pack FOLDER" >&2; exit 1; }
  pack "$2"
  exit
fi
# The libraries of torch's environment, where nothing else is named.
: "${FSDP_CUDA_LIBS:=$(python3 -c 'import glob, sys
print(":".join(sorted({f.rsplit("/", 1)[0] for p in sys.path if p.endswith("site-packages")
                       for f in glob.glob(p + "/nvidia/**/lib/*.so*", recursive=True)})))')}"
export FSDP_CUDA_LIBS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work here
mkdir -p "$here/log"
export -f train "${parts[@]}"
for part in "${@:-${parts[@]}}"; do
  [[ " ${parts[*]} " = *" $part "* ]] || { echo "expected a part of: ${parts[*]}, got: $part" >&2; exit 1; }
  began=$SECONDS
  timeout "$limit" bash -c "fixtures=(${fixtures[*]}); $part" >"$here/log/$part.log" 2>&1
  echo "$part: exit $? after $((SECONDS - began)) s" | tee -a "$here/log/$part.log"
done
tail -n 40 "$here"/log/*.log
