# What the parts of gpu.sh share. A part defines `pack`, which fills the folder $packs on the machine that has the
# compiler, and `run`, which reads the folder $here on the machine that has a GPU and leaves files in $work.
fixtures=(${FSDP_GPU_FIXTURES:-gpt2 llama bert t5 resnet transformer mixed gpt2-head64-bf16 llama-autocast})
# Set by `expect`; a part's exit status.
failed=0

# expect NAME COMMAND...: runs the command and says whether it failed.
expect() {
  local name=$1
  shift
  if "$@"; then
    echo "ok: $name"
  else
    echo "FAILED: $name (exit $?)"
    failed=1
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

pack_tools() {
  mkdir -p "$packs"/{bin,lib,emulator,gpu,programs,fixtures}
  cp "$here/gpu.sh" "$packs/" && cp "$here"/gpu/*.{sh,py,json} "$packs/gpu/" && cp "$bin/fsdp-run" "$packs/bin/" &&
    cp -L "$bin/../lib/libfsdp-rt.so.1" "$packs/lib/" && cp -L "$bin"/../test/cuda/emulator/lib*.so* "$packs/emulator/" ||
    { echo "expected fsdp-run, libfsdp-rt and the emulator beside $bin: build first" >&2; return 1; }
}

# compile PROGRAM STEP OPTION...: the step's folder becomes a shared library, or with --emit exe an executable, for cuda, or
# for what --target says. The other machine's processor need not be this one's.
compile() {
  local made=$packs/programs/lib$1.so kept=$packs/programs/$1.so given=" $* " said
  [[ $given = *" --target "* ]] || set -- "$@" --target cuda
  if [[ $given = *" --emit exe "* ]]; then
    made=$packs/programs/$1 kept=$made
  else
    set -- "$@" --emit so
  fi
  [ ! -f "$kept" ] || return 0
  said=$("$bin/fsdp-compile" "$2/model.mlir" --march x86-64-v3 "${@:3}" -o "$made" 2>&1) ||
    { echo "$1: $said" >&2; return 1; }
  strip "$made"
  [ "$made" = "$kept" ] || { mv "$made" "$kept" && rm "${made%.so}.h"; }
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

# locate_model NAME FOLDER: sets `step` to the fixture's folder, or for head64 and head128 exports one to FOLDER, and
# `options` to what fsdp-compile is given for it.
locate_model() {
  step=$root/test/fixtures/$1 options=()
  case $1 in
    head64 | head128)
      step=$2/$1 options=(--param-dtype bf16)
      export_model "$1" "$step" ;;
  esac
}

# export_model NAME FOLDER: a layer of the head size that the name, head64 or head128, says; needs torch.
export_model() {
  local arch=hf:gpt2 config=n_layer=1,n_embd=768,n_head=12,vocab_size=1024 batch=8 seq=1024
  [ "$1" = head64 ] || {
    arch=hf:llama batch=4 seq=2048
    config=hidden_size=1024,intermediate_size=2816,num_hidden_layers=1,num_attention_heads=8,num_key_value_heads=8,vocab_size=1024
  }
  PYTHONPATH=$root/tools/fsdp-export/src "$python" -B -m fsdp_export "$arch" --config "$config" --batch "$batch" \
    --seq "$seq" --skip-init --no-verify -o "$2"
}

# pack_expected FIXTURE: PyTorch's numbers, and the parameters and batches that they are of.
pack_expected() {
  mkdir -p "$packs/fixtures/$1"
  cp "$root/test/fixtures/$1"/{batches.safetensors,params.safetensors,expect.json} "$packs/fixtures/$1/"
}

# Running.

# program NAME OPTION...: an executable, or a library, whose name ends in .so then.
program() {
  local words=("$here/programs/$1")
  [ -f "${words[0]}" ] || words=("$here/bin/fsdp-run" "${words[0]}.so")
  LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "${words[@]}" "${@:2}"
}

# train NAME PROGRAM OPTION...: metrics and a checkpoint under $work/NAME; from drawn parameters and on drawn batches,
# where the options name none.
train() {
  local out=$work/$1 given=" $* "
  rm -rf "$out"
  mkdir -p "$out"
  [[ $given = *" --params "* ]] || set -- "$@" --init seed=0
  [[ $given = *" --data "* ]] || set -- "$@" --data random:seed=0
  [[ $given = *" --device "* ]] || set -- "$@" --device cuda
  program "$2" --metrics "$out/metrics.jsonl" --save "$out/saved" --quiet "${@:3}"
}

# The same on the emulated driver.
train_emulated() {
  FSDP_CUDA_LIBS=$here/emulator FSDP_EMULATOR_CAPABILITY=8.0 FSDP_CUDA_CACHE=none train "$@"
}

# train_expected NAME FIXTURE RANKS OPTION...: PyTorch's steps, and how far its losses and norms are.
train_expected() {
  local name=$1 fixture=$here/fixtures/$2 ranks=$3
  train "$name" "$2-$ranks" -n "$ranks" --params "$fixture/params.safetensors" --data "$fixture/batches.safetensors" \
    --lr "$(python3 "$here/gpu/compare.py" expected "$fixture/expect.json" lr)" \
    --steps "$(python3 "$here/gpu/compare.py" expected "$fixture/expect.json" steps)" "${@:4}" &&
    python3 "$here/gpu/compare.py" parity "$work/$name/metrics.jsonl" "$fixture/expect.json" "$ranks"
}

# compare MODE NAME NAME ARGUMENT...: of two runs' checkpoints.
compare() {
  python3 "$here/gpu/compare.py" "$1" "$work/$2/saved" "$work/$3/saved" "${@:4}"
}
