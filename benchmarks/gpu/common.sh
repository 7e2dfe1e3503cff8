# What the parts of gpu.sh share. A part defines `pack`, which fills the folder $packs on the machine that has the
# compiler, and `run`, which reads the folder $here on the machine that has a GPU, leaves files in $work, and in $log what
# is to come back.
fixtures=(${FSDP_GPU_FIXTURES:-gpt2 llama bert t5 resnet transformer mixed gpt2-head64-bf16 llama-autocast})
# Models whose step keeps a card busy; a fixture in their place is what an emulated driver can run.
busy=(${FSDP_GPU_BUSY:-head64 head128})
# Set by `expect`; a part's exit status.
failed=0
# Folders of programs and of what they are compared with, on either machine.
base=${packs:-$here}

# expect NAME COMMAND...: runs the command and says whether it failed.
expect() {
  local name=$1 status
  shift
  if "$@"; then
    echo "ok: $name"
  else
    status=$?
    # By `limited`.
    [ "$status" -ne 124 ] && echo "FAILED: $name (exit $status)" || echo "FAILED: $name (still running after ${FSDP_GPU_RUN:-0} s)"
    failed=1
    return "$status"
  fi
}

# skip REASON: ends a part that cannot run on this machine.
skip() {
  echo "skipped: $1"
  exit 77
}

# Packing.

root=${packs:+$(cd "$here/.." && pwd)}
bin=${FSDP_BIN:-$root/build/bin}
python=${PYTHON:-python3}
models=$(realpath -m "${FSDP_GPU_MODELS:-$root/build/gpu-models}")
emulator=$bin/../lib/fsdp-emulator

jobs=()
# job COMMAND...: runs the command beside others, one for each processor.
job() {
  [ ${#jobs[@]} -lt "$(nproc)" ] || join_first
  "$@" &
  jobs+=($!)
}

join_first() {
  wait "${jobs[0]}" || failed=1
  jobs=("${jobs[@]:1}")
}

# join: waits for all jobs; fails if one did.
join() {
  while [ ${#jobs[@]} -gt 0 ]; do
    join_first
  done
  return "$failed"
}

pack_tools() {
  mkdir -p "$packs"/{bin,lib,gpu,programs}
  cp "$here"/gpu/*.{sh,py,json} "$packs/gpu/" && cp "$bin/fsdp-run" "$packs/bin/" &&
    strip -o "$packs/lib/libfsdp-rt.so.1" "$bin/../lib/libfsdp-rt.so.1" && [ -f "$emulator/libcuda.so.1" ] ||
    { echo "expected fsdp-run, libfsdp-rt and the emulator beside $bin: build first" >&2; return 1; }
}

# compile PROGRAM STEP OPTION...: a job in which the step's folder becomes a shared library for cuda. The other machine's
# processor need not be this one's.
compile() {
  [ ! -f "$packs/programs/$1.so" ] || return 0
  # What another part names again, before this one is done.
  : >"$packs/programs/$1.so"
  job compile_now "$@"
}

compile_now() {
  local made
  made=$(mktemp -d -p "$work")
  quietly "$bin/fsdp-compile" "$2/model.mlir" --march x86-64-v3 --target cuda --emit so "${@:3}" -o "$made/lib$1.so" ||
    return
  strip "$made/lib$1.so" && mv "$made/lib$1.so" "$packs/programs/$1.so" && rm -r "$made"
}

# pack_trained FIXTURE MESH: the fixture's step with its optimizer, as program FIXTURE-RANKS.
pack_trained() {
  local step=$root/test/fixtures/$1
  compile "$1-${2//[^0-9]/}" "$step" --optimizer-file "$step/optimizer.mlir" --mesh "$2" "${@:3}"
}

# pack_step PREFIX STEP OPTION...: a step's folder that steps.py or modules.py wrote, as PREFIX and its name.
pack_step() {
  local name=$1${2##*/} step=$2 optimizer=() options
  mkdir -p "$packs/steps/$name"
  [ ! -f "$step/optimizer.mlir" ] || optimizer=(--optimizer-file "$step/optimizer.mlir")
  mapfile -t options <"$step/options"
  compile "$name" "$step" "${optimizer[@]}" "${options[@]}" "${@:3}" || return
  find "$step" -name run -o -name '*.safetensors' | xargs cp -t "$packs/steps/$name"
}

# exported NAME WORD...: sets `step` to the folder that python, given these words and the folder's name, writes in the
# repository. It is kept under the words, and what they name and the exporter are.
exported() {
  local version
  version=$(cd "$root" && { printf '%s\n' "${@:2}"; cat "${@:2}" 2>/dev/null
    find tools/fsdp-export/{pyproject.toml,src} -name '*.py' -o -name '*.toml' | sort | xargs cat; } | sha256sum) || return
  step=$models/$1-${version:0:16}
  [ ! -d "$step" ] || return 0
  rm -rf "$step.part"
  mkdir -p "$step.part"
  (cd "$root" && PYTHONPATH=tools/fsdp-export/src quietly "$python" -B "${@:2}" "$step.part") && mv "$step.part" "$step" ||
    { echo "$1: expected $python to have torch, torch-mlir and transformers" >&2; return 1; }
}

# is_listed NAME: a model of models.json, and no fixture.
is_listed() {
  grep -q "^  \"$1\": " "$here/gpu/models.json"
}

# program_of NAME: prints the name of the program that trains a listed model, or else a fixture, on one rank.
program_of() {
  is_listed "$1" && echo "model-$1" || echo "$1-1"
}

# pack_model NAME OPTION...: as the program that program_of says or, where NAME is MODEL:PROGRAM, as PROGRAM. Products of
# models are in bf16; those of fixtures as these say.
pack_model() {
  local name=${1%:*} step=$root/test/fixtures/${1%:*} options=() words
  if is_listed "$name"; then
    mapfile -t words < <(python3 "$here/gpu/speed.py" export "$name")
    exported "$name" -m fsdp_export "${words[@]}" --no-dropout --skip-init --no-verify -o || return
    options=(--param-dtype bf16)
  fi
  [[ $1 = *:* ]] || set -- "$1:$(program_of "$1")" "${@:2}"
  compile "${1#*:}" "$step" --optimizer-file "$step/optimizer.mlir" --mesh shard=1 "${options[@]}" "${@:2}"
}

# quietly COMMAND...: prints what it says if it fails.
quietly() {
  local said
  said=$("$@" 2>&1) || { echo "$said" >&2; return 1; }
}

# emulated COMMAND...: on the emulated driver.
emulated() {
  FSDP_CUDA_LIBS=$emulator FSDP_EMULATOR_CAPABILITY=8.0 FSDP_CUDA_CACHE=none quietly "$@"
}

# pack_gradients FIXTURE: the first step's gradients, and after `join` emulate_gradients, which leaves the emulated driver's:
# of one PTX they have the same bits on all machines.
pack_gradients() {
  pack_expected "$1" &&
    compile "$1-gradients" "$root/test/fixtures/$1" --optimizer sgd:lr=1 --mesh shard=1
}

emulate_gradients() {
  [ ! -d "$packs/expected/$1" ] || return 0
  emulated differentiate "$1-emulated" "$1" && mkdir -p "$packs/expected/$1" && cp "$work/$1-emulated"/saved/step-*/*.safetensors "$packs/expected/$1/"
}

# pack_expected FIXTURE: PyTorch's numbers, and the parameters and batches that they are of.
pack_expected() {
  mkdir -p "$packs/fixtures/$1"
  cp "$root/test/fixtures/$1"/{batches.safetensors,params.safetensors,expect.json} "$packs/fixtures/$1/"
}

# Running.

# What part facts found that this machine runs: FSDP_GPU_GRAPH and FSDP_GPU_DEPENDENT_LAUNCH, auto or off.
[ -n "$packs" ] || [ ! -f "$work/settings" ] || . "$work/settings"
export FSDP_GPU_GRAPH=${FSDP_GPU_GRAPH:-auto} FSDP_GPU_DEPENDENT_LAUNCH=${FSDP_GPU_DEPENDENT_LAUNCH:-auto}

# limited COMMAND...: ends it at half of the part's time if it hangs, so that the next one has some.
limited() {
  timeout --foreground -k 3 "${FSDP_GPU_RUN:-0}" "$@"
}

# program NAME OPTION...: sets `words` to the command of a run on the card. What facts found out, and whose attention it
# is, are said always.
program() {
  local given=" $* "
  words=("$base/bin/fsdp-run" "$base/programs/$1.so" --device cuda "${@:2}")
  [[ $given = *" --attention "* ]] || words+=(--attention own)
  [[ $given = *" --graph "* ]] || words+=(--graph "$FSDP_GPU_GRAPH")
  [[ $given = *" --dependent-launch "* ]] || words+=(--dependent-launch "$FSDP_GPU_DEPENDENT_LAUNCH")
  [[ $given = *" --params "* ]] || words+=(--init seed=0)
  [[ $given = *" --data "* ]] || words+=(--data random:seed=0)
}
export LD_LIBRARY_PATH=$base/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# train NAME PROGRAM OPTION...: metrics and a checkpoint under $work/NAME; from drawn parameters and on drawn batches,
# where the options name none.
train() {
  local out=$work/$1 words
  rm -rf "$out"
  mkdir -p "$out"
  program "$2" --metrics "$out/metrics.jsonl" --save "$out/saved" --quiet "${@:3}"
  limited "${words[@]}"
}

# time_steps NAME PROGRAM OPTION...: of a run of the program, whose remarks it prints; times, clocks and power are
# $log/NAME.json. NAME is MODEL.HOW.
time_steps() {
  local words
  rm -rf "$work/$1"
  mkdir -p "$work/$1"
  program "$2" --lr 0.0001 --steps "${FSDP_GPU_STEPS:-30}" --log-every 1000000 "${@:3}"
  echo "-- $1: ${*:3}"
  limited python3 "$here/gpu/speed.py" run "$log/$1.json" "$work/$1" "${words[@]}"
}

# differentiate NAME FIXTURE OPTION...: a learning rate so large that a parameter's own value is lost in its update leaves
# the gradient.
differentiate() {
  train "$1" "$2-gradients" --steps 1 --lr 1152921504606846976 "${@:3}"
}

# compare_gradients NAME FIXTURE: of a run, with the emulated driver's.
compare_gradients() {
  python3 "$here/gpu/compare.py" gradients "$work/$1/saved" "$here/expected/$2" "$here/fixtures/$2/expect.json"
}

# train_expected NAME FIXTURE RANKS OPTION...: PyTorch's steps, and how far its losses and norms are.
train_expected() {
  local name=$1 fixture=$here/fixtures/$2 ranks=$3
  train "$name" "$2-$ranks" -n "$ranks" --params "$fixture/params.safetensors" --data "$fixture/batches.safetensors" \
    --lr "$(python3 "$here/gpu/compare.py" expected "$fixture/expect.json" lr)" \
    --steps "$(python3 "$here/gpu/compare.py" expected "$fixture/expect.json" steps)" "${@:4}" &&
    python3 "$here/gpu/compare.py" parity "$work/$name/metrics.jsonl" "$fixture/expect.json" "$ranks"
}

# compare_bits NAME NAME: of two runs' checkpoints.
compare_bits() {
  python3 "$here/gpu/compare.py" bits "$work/$1/saved" "$work/$2/saved"
}
