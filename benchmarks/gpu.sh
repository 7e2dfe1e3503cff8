#!/usr/bin/env bash
# Runs compiled programs on a machine that has a GPU, CUDA and PyTorch, but neither MLIR nor this repository.
#
#   benchmarks/gpu.sh pack FOLDER [PART ...]   here: compiles, and copies what all parts, or these, need there
#   FOLDER/gpu.sh [PART ...]                   there: runs all parts, or these; exits 1 if one failed
#
# A part runs for 180 s at most, writes FOLDER/log/PART.log and ends with "ok", "FAILED" or "skipped" for all of it. The
# default order, the most valuable first:
#
#   facts        the card, its libraries, and one step on it
#   words        gradients of 9 models on the card and on the emulated driver: words that are equal, and a tolerance
#   kernels      a program for each kind of kernel on both: every word is equal where no product is in it
#   ranks        two ranks, as threads and as processes, by NCCL and by the host's memory; sums over ranks bit for bit
#   parity       losses and norms beside PyTorch's
#   memory       the runtime's account and nvidia-smi's beside the plan
#   speed-gpt2, speed-llama   time and memory of a step beside PyTorch's, eager and compiled
#   calibrate    times of our own kernels, as a device table for fsdp-plan: log/device-table.json (FSDP_GPU_QUICK=1 where
#                it is packed: tiny sizes)
#   graph        runs with CUDA graphs and dependent launch, and without, bit for bit; their times
#   attention    attention by cuDNN beside our kernels: gradients, bits of a rerun, and both times
#   tune         the shapes of attentions and reductions that are fastest, as a table for fsdp-compile --tuning
#   sanitizer    compute-sanitizer's four tools, where it is installed
#
# A part is FOLDER/gpu/PART.sh (speed.sh for both models): `pack` runs here, `run` there. What the emulated driver is to
# run, it runs there as well. Packing needs fsdp-compile and the emulator (FSDP_BIN, default build/bin), and for kernels,
# speed, attention and tune a Python with torch and transformers (PYTHON, default python3). Parameters come from --init there, but those
# that PyTorch's losses are of. To try it without a GPU, with fewer fixtures (here and there) and steps:
#   FSDP_CUDA_LIBS=FOLDER/emulator FSDP_EMULATOR_CAPABILITY=8.0 FSDP_GPU_FIXTURES="gpt2 mixed" FSDP_GPU_LIMIT=600 \
#     FSDP_GPU_TORCH=cpu FSDP_GPU_STEPS=8 FOLDER/gpu.sh
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
limit=${FSDP_GPU_LIMIT:-180}
all=(facts words kernels ranks parity memory speed-gpt2 speed-llama calibrate graph attention tune sanitizer)
export here

packs=
if [ "${1:-}" = pack ]; then
  [ $# -ge 2 ] || { echo "usage: $0 pack FOLDER [PART ...]" >&2; exit 1; }
  mkdir -p "$2"
  packs=$(cd "$2" && pwd)
  # Programs of another compiler would stay.
  [ -z "$(ls -A "$packs")" ] || { echo "expected an empty folder, got $2" >&2; exit 1; }
  shift 2
fi
parts=("${@:-${all[@]}}")
for part in "${parts[@]}"; do
  # speed-X: of any model in gpu/models.json.
  [ -f "$here/gpu/${part%%-*}.sh" ] && [ "$part" != common ] ||
    { echo "expected a part of: ${all[*]}, got: $part" >&2; exit 1; }
done

# in_part PART FUNCTION: a shell of its own for a part's function.
in_part() {
  part=$1 bash -c 'set -u; . "$here/gpu/common.sh"; . "$here/gpu/${part%%-*}.sh"; "$0" || failed=1; exit "$failed"' "$2"
}

if [ -n "$packs" ]; then
  export packs
  . "$here/gpu/common.sh"
  pack_tools || exit 1
  for part in "${parts[@]}"; do
    in_part "$part" pack || { echo "expected to pack $part, got errors" >&2; exit 1; }
  done
  size=$(du -sm "$packs" | cut -f1)
  echo "$packs: $size MB"
  [ "$size" -le 60 ] || { echo "expected at most 60 MB, got $size" >&2; exit 1; }
  exit
fi

# The libraries of PyTorch's environment, where nothing else is named.
: "${FSDP_CUDA_LIBS:=$(python3 -c 'import glob, sys
print(":".join(sorted({f.rsplit("/", 1)[0] for p in sys.path if p.endswith("site-packages")
                       for f in glob.glob(p + "/nvidia/**/lib/*.so*", recursive=True)})))')}"
work=$(mktemp -d)
group=
# finish_group: what a part that ran out of time has started has 10 s to end.
finish_group() {
  local waited=0
  while kill -TERM -- "-$group" 2>/dev/null && [ "$waited" -lt 20 ]; do
    sleep 0.5
    waited=$((waited + 1))
  done
  kill -KILL -- "-$group" 2>/dev/null
}
trap '[ -z "$group" ] || finish_group; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# Runs that are compared take the same algorithms of products.
export FSDP_CUDA_LIBS work FSDP_CUDA_CACHE=$work/cache
mkdir -p "$here/log"
export -f in_part
result=0
for part in "${parts[@]}"; do
  began=$SECONDS
  echo "==== $part"
  # timeout is the first of a process group of its own, in which all of the part runs.
  timeout -k 10 "$limit" bash -c 'in_part "$0" run' "$part" >"$here/log/$part.log" 2>&1 & group=$!
  wait "$group"
  status=$?
  finish_group
  group=
  case $status in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    124 | 137) verdict="FAILED (still running after $limit s)" result=1 ;;
    *) verdict="FAILED (exit $status)" result=1 ;;
  esac
  verdict="$part: $verdict, $((SECONDS - began)) s"
  echo "$verdict" >>"$here/log/$part.log"
  cat "$here/log/$part.log"
  verdicts+=("$verdict")
done
printf '%s\n' ==== "${verdicts[@]}"
exit $result
