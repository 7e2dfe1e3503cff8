#!/usr/bin/env bash
# Runs compiled programs on a machine that has a GPU, CUDA and PyTorch, but neither MLIR nor this repository, and that may
# be lent for minutes only: `gpu.sh --help` prints how, and docs/cuda.md, "On a GPU", says what for.
#
# A part is gpu/PART.sh (speed.sh and torch.sh for all models): its `pack` runs where the compiler is and fills the folder
# $packs, its `run` where the GPU is and reads the folder $here. gpu/common.sh has what they share.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export here

# Parts in the order in which they run, what settles most first; the seconds that each is expected to take on an H200, by
# its number of processes, steps and measured times of libraries; and what it settles. A part that fits into the time that
# is left is begun. docs/cuda.md has the same rows.
table='
facts 10 whether there is a GPU with cuBLASLt and NCCL, and a step runs, as a graph and with dependent launch; where it does not, later parts do without
kernels 35 small programs, one for each kind of kernel: every word is the emulated driver'\''s, within a tolerance where cuBLASLt, mma.sync or an approximate instruction is in it
speed-gpt2 25 time of a step of GPT-2 124M (8 x 1024, products in bf16), of each kernel in it, clocks and power: --attention own, auto, --algorithms fastest, --graph off
attention 40 attention by cuDNN: gradients beside the emulated driver'\''s, a rerun and a run call by call bit for bit, times of both
speed-llama 25 the same as speed-gpt2, of a Llama of 492 M (2 x 2048)
words 30 gradients of 9 fixtures beside the emulated driver'\''s: words that are equal, and a tolerance
graph 25 runs with CUDA graphs and dependent launch and without, bit for bit, and their times
torch-gpt2 80 the step of speed-gpt2 by PyTorch, eager and compiled, beside ours
torch-llama 110 the step of speed-llama by PyTorch, eager and compiled, beside ours
ranks 40 two ranks, by NCCL and by the host'\''s memory: sums over ranks have the bits of processors, losses are PyTorch'\''s; on several GPUs four ranks and threads as well
ncu 40 Nsight Compute'\''s view of the kernels that take longest in speed-gpt2
parity 15 losses and norms of 9 fixtures beside PyTorch'\''s
memory 30 the runtime'\''s account of the card'\''s memory, and nvidia-smi'\''s, beside the plan
sanitizer 60 compute-sanitizer, memcheck and racecheck, on a step with attention by tensor cores
calibrate 60 times of our own kernels and launches as a device table for fsdp-plan: device-table.json
tune 80 the shapes of attentions and reductions that are fastest, as a table for fsdp-compile --tuning: tuning.json
'
# A part that is not in the table, such as speed-tiny.
unknown=30
mapfile -t all < <(awk 'NF { print $1 }' <<<"$table")

# estimate PART: in seconds.
estimate() {
  awk -v part="$1" -v seconds="$unknown" '$1 == part { seconds = $2 } END { print seconds }' <<<"$table"
}

usage() {
  cat <<END
usage: gpu.sh pack FOLDER [PART ...]                   where the compiler is: compiles and packs all parts, or these
       gpu.sh [--out DIR] [--seconds N] [PART ...]     in FOLDER, where the GPU is: runs what was packed, or these parts

Verdicts go to standard output, logs and tables into one file, DIR/gpu-log.tar.gz, which is replaced as a whole after each
part, so that a script that is killed leaves what was done; without --out they are files in FOLDER/log. The exit status is
1 if a part failed. With --seconds the script ends in time: a part that is not expected to fit into what is left is not
begun, and named. A part has 90 s (FSDP_GPU_LIMIT), or twice what it is expected to take, and at most what is left.

Parts, in their order, with the seconds that each is expected to take on an H200:

$(awk 'NF { name = $1; seconds = $2; sub(/^[^ ]+ [^ ]+ /, ""); printf "  %-12s %4d  %s\n", name, seconds, $0 }' <<<"$table")

To pack, FSDP_BIN (build/bin) has the compiler and PYTHON (python3) torch and transformers where steps are exported that
FSDP_GPU_MODELS (build/gpu-models) does not keep yet. To try a folder without a GPU, small models take the place of those
that an emulated driver needs hours for, when it is packed and when it is run:

  export FSDP_GPU_BUSY=gpt2-head64-bf16 FSDP_GPU_TUNED=gpt2-head64-bf16 FSDP_GPU_PROFILED=tiny FSDP_GPU_QUICK=1
  gpu.sh pack FOLDER facts kernels speed-tiny attention words graph torch-tiny ranks parity memory calibrate tune
  FSDP_CUDA_LIBS=build/lib/fsdp-emulator FSDP_EMULATOR_CAPABILITY=8.0 FSDP_EMULATOR_DEVICES=1 FSDP_GPU_STEPS=8 \\
    FSDP_GPU_TORCH=cpu FSDP_GPU_LIMIT=400 FOLDER/gpu.sh --out DIR
END
}

# refuse TEXT: what was expected, and got.
refuse() {
  echo "$1; gpu.sh --help says more" >&2
  exit 1
}

check_parts() {
  local part
  for part in "$@"; do
    # speed-X: of any model in gpu/models.json.
    [[ $part =~ ^[a-z0-9-]+$ && -f $here/gpu/${part%%-*}.sh && $part != common ]] ||
      refuse "expected a part of: ${all[*]}, got: $part"
  done
}

# in_part PART FUNCTION: a shell of its own for a part's function.
in_part() {
  part=$1 bash -c 'set -u; . "$here/gpu/common.sh"; . "$here/gpu/${part%%-*}.sh"; "$0" || failed=1; join || failed=1
    exit "$failed"' "$2"
}

packs= work= group= stopped=
# A folder that is on its way to another machine.
most=40000000

# archive NAME: what has come to $packs since the last one, as FOLDER/packed/NAME.tar.gz.
archive() {
  (cd "$packs" && find . \( -type f -o -type l \) -printf '%P\n' | sort >"$work/now" &&
    comm -13 "$work/before" "$work/now" >"$work/new" && mv "$work/now" "$work/before" &&
    tar -czf "$folder/packed/$1.tar.gz" -T "$work/new") || refuse "expected to write $folder/packed/$1.tar.gz, got errors"
}

pack() {
  [ $# -ge 1 ] || refuse "expected a folder to pack, got none"
  mkdir -p "$1" || exit 1
  folder=$(cd "$1" && pwd)
  # Programs of another compiler would stay.
  [ -z "$(ls -A "$folder")" ] || refuse "expected an empty folder, got $1"
  shift
  [ $# -gt 0 ] || set -- "${all[@]}"
  check_parts "$@"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  packs=$work/packs
  export packs work
  mkdir -p "$packs" "$folder/packed"
  : >"$work/before"
  cp "$here/gpu.sh" "$folder/" && (. "$here/gpu/common.sh" && pack_tools) || exit 1
  archive tools
  local part began size sum=0 row=' %-12s %8s %8s\n'
  printf "$row" part KB seconds
  for part in tools "$@"; do
    began=$SECONDS
    if [ "$part" != tools ]; then
      in_part "$part" pack || { echo "expected to pack $part, got errors" >&2; exit 1; }
      archive "$part"
    fi
    size=$(stat -c %s "$folder/packed/$part.tar.gz")
    sum=$((sum + size))
    printf "$row" "$part" $((size / 1000)) $((SECONDS - began))
  done
  printf '%s\n' "$@" >"$folder/packed/parts"
  printf "$row" all $((sum / 1000)) "$SECONDS"
  [ "$sum" -le "$most" ] || { echo "expected at most $most bytes, got $sum" >&2; exit 1; }
}

# unpack: from here on, $here is what was packed; `parts` are those that were.
unpack() {
  local archive
  parts=("${all[@]}")
  # Without archives the folder is one that somebody has unpacked.
  [ -d "$here/packed" ] || return 0
  mapfile -t parts <"$here/packed/parts"
  mkdir "$work/unpacked"
  for archive in "$here"/packed/*.tar.gz; do
    tar -xzf "$archive" --no-same-owner -C "$work/unpacked" || refuse "expected to unpack $archive, got errors"
  done
  here=$work/unpacked
}

# finish_group: what a part has started and left running has 3 s to end.
finish_group() {
  local waited=0
  while kill -TERM -- "-$group" 2>/dev/null && [ "$waited" -lt 15 ]; do
    sleep 0.2
    waited=$((waited + 1))
  done
  kill -KILL -- "-$group" 2>/dev/null
  group=
}

# cut_log FILE: no log is longer than a MiB, whatever a part says.
cut_log() {
  local size half=$((1 << 19))
  size=$(stat -c %s "$1")
  [ "$size" -gt $((2 * half)) ] || return 0
  { head -c "$half" "$1" && printf '\n(%d bytes are left out)\n' $((size - 2 * half)) && tail -c "$half" "$1"; } >"$work/cut" &&
    mv "$work/cut" "$1"
}

write_log() {
  # 1: a file grew meanwhile.
  tar -czf "$out/.gpu-log.part" -C "$work" --warning=no-file-changed log || [ $? -eq 1 ]
}

# deliver: logs, tables and profiles become DIR's file, of at most 16 MiB.
deliver() {
  find "$log" -type f -size +2M -printf 'left out: %P, %s bytes\n' -delete
  write_log || return
  if [ "$(stat -c %s "$out/.gpu-log.part")" -gt $((16 << 20)) ]; then
    echo "left out: all but logs"
    find "$log" -type f ! -name '*.log' ! -name verdicts -delete
    write_log || return
  fi
  mv -f "$out/.gpu-log.part" "$out/gpu-log.tar.gz"
}

# explain FILE: what failed, by a log; or its last lines.
explain() {
  { grep -aE '^(FAILED|WRONG|error: )' "$1" || tail -n 3 "$1"; } | head -n 8 | cut -c 1-200 | sed 's/^/    /'
}

# settle PART VERDICT: prints it with what failed, and brings what there is to DIR.
settle() {
  local verdict="$1: $2"
  verdicts+=("$verdict")
  echo "$verdict" | tee -a "$log/verdicts"
  if [ -f "$log/$1.log" ]; then
    [[ $2 != FAILED* ]] || explain "$log/$1.log"
    echo "$verdict" >>"$log/$1.log"
    cut_log "$log/$1.log"
  fi
  [ -z "$out" ] || deliver || { echo "FAILED: expected to write $out/gpu-log.tar.gz"; result=1; }
}

# run_part PART: sets `result`.
run_part() {
  local part=$1 needs limit left began=$SECONDS status verdict
  needs=$(estimate "$part")
  limit=${FSDP_GPU_LIMIT:-$((needs > 45 ? 2 * needs : 90))}
  if [ -n "$seconds" ]; then
    # 5 s: for a part that is ended to end, and for its log.
    left=$((seconds - SECONDS - 5))
    [ "$left" -ge "$needs" ] || { settle "$part" "not begun: needs $needs s, $((left > 0 ? left : 0)) left"; return; }
    limit=$((limit < left ? limit : left))
  fi
  # timeout is the first of a process group of its own, in which all of the part runs. A run in it has half of its time.
  FSDP_GPU_RUN=$(((limit + 1) / 2)) timeout -k 3 "$limit" bash -c 'in_part "$0" run' "$part" >"$log/$part.log" 2>&1 & group=$!
  wait "$group"
  status=$?
  finish_group
  case ${stopped:-$status} in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    *)
      result=1 verdict="FAILED (exit $status)"
      [ "$status" -lt 128 ] || verdict="FAILED (killed by signal $((status - 128)))"
      # 124, or where it takes more than SIGTERM, 3 s later, 137.
      [ "$status" -ne 124 ] && [ "$status-$((SECONDS - began > limit + 1))" != 137-1 ] ||
        verdict="FAILED (still running after $limit s)"
      [ -z "$stopped" ] || verdict="FAILED (the script got signal $stopped)" ;;
  esac
  settle "$part" "$verdict, $((SECONDS - began)) s of $needs"
}

# stop SIGNAL: what was done is in DIR already; what was being done comes to it.
stop() {
  stopped=$1
  [ -z "$group" ] || kill -TERM -- "-$group" 2>/dev/null
}

run() {
  out= seconds=
  while [ $# -gt 0 ]; do
    case $1 in
      --out) [ -n "${2:-}" ] || refuse "expected a folder after --out, got none"; out=$2; shift 2 ;;
      --seconds) [[ ${2:-} =~ ^[1-9][0-9]{0,6}$ ]] || refuse "expected whole seconds after --seconds, got '${2:-}'"
        seconds=$2; shift 2 ;;
      -*) refuse "expected --out, --seconds or a part, got $1" ;;
      *) break ;;
    esac
  done
  local folder=$here part tools
  work=$(mktemp -d)
  trap '[ -z "$group" ] || finish_group; rm -rf "$work"' EXIT
  trap 'stop 1' HUP
  trap 'stop 2' INT
  trap 'stop 15' TERM
  unpack
  for part in "$@"; do
    [[ ! -d $folder/packed || " ${parts[*]} " = *" $part "* ]] || refuse "expected a part that was packed, of: ${parts[*]}, got: $part"
  done
  [ $# -eq 0 ] || parts=("$@")
  check_parts "${parts[@]}"
  log=$folder/log
  if [ -n "$out" ]; then
    mkdir -p "$out" && out=$(cd "$out" && pwd) && [ -w "$out" ] || refuse "expected a folder to write to, got $out"
    log=$work/log
  fi
  mkdir -p "$log" || exit 1
  : >"$log/verdicts"
  # Where toolkits put ncu and compute-sanitizer.
  for tools in /usr/local/cuda/bin /opt/nvidia/nsight-compute/*/; do
    PATH=$PATH:${tools%/}
  done
  # The libraries of PyTorch's environment, where nothing else is named.
  : "${FSDP_CUDA_LIBS=$(python3 "$here/gpu/libraries.py" folders)}"
  # Runs that are compared take the same algorithms of products.
  export here packs work log FSDP_CUDA_LIBS FSDP_CUDA_CACHE=$work/cache
  export -f in_part
  result=0 verdicts=()
  for part in "${parts[@]}"; do
    run_part "$part"
    [ -z "$stopped" ] || exit $((128 + stopped))
  done
  echo "==== $SECONDS s"
  printf '%s\n' "${verdicts[@]}"
  exit $result
}

case ${1:-} in
  --help) usage ;;
  pack) shift; pack "$@" ;;
  *) run "$@" ;;
esac
