# A program for each kind of kernel: modules.py's have the sizes of real models, those of test/Kernels each form of op that
# has been compiled wrongly. What the emulated driver makes of them is packed; kernels.py compares. A name begins with
# "kernel-". FSDP_GPU_CASES names some of test/Kernels to pack instead of all, without torch.

# run_kernel NAME PROGRAM OPTION...: with the step's own options, parameters and data.
run_kernel() {
  local step=$base/steps/$2 given
  mapfile -t given <"$step/run"
  [ ! -f "$step/params.safetensors" ] || given+=(--params "$step/params.safetensors")
  [ ! -f "$step/data.safetensors" ] || given+=(--data "$step/data.safetensors")
  train "$1" "$2" "${given[@]}" "${@:3}"
}

pack() {
  local steps=$work/kernels step= written
  mkdir "$steps"
  python3 -B "$here/gpu/steps.py" "$root" "$steps" kernels ${FSDP_GPU_CASES:-} || return
  [ -n "${FSDP_GPU_CASES:-}" ] || exported modules benchmarks/gpu/modules.py || return
  written=("$steps"/* ${step:+"$step"/*})
  for step in "${written[@]}"; do
    pack_step kernel- "$step" --mesh shard=1 || return
  done
  join || return
  for step in "${written[@]}"; do
    job emulate "kernel-${step##*/}"
  done
}

emulate() {
  emulated run_kernel "$1" "$1" --profile "$work/$1.profile" && mkdir -p "$packs/expected/$1" &&
    cp "$work/$1"/saved/step-*/*.safetensors "$packs/expected/$1/" && cp "$work/$1.profile" "$packs/expected/$1/profile"
}

check() {
  local said
  if said=$(run_kernel "$1" "$1" 2>&1 >"$work/$1.said" && python3 "$here/gpu/kernels.py" "$here" "$1" "$work/$1/saved"); then
    echo "$said"
    : >"$work/right/$1"
  else
    echo "WRONG $1: ${said:-no words}"
    return 1
  fi
}

run() {
  local program programs=("$here"/programs/kernel-*.so)
  mkdir "$work/right"
  for program in "${programs[@]}"; do
    program=${program##*/}
    job check "${program%.so}"
  done
  join
  echo "$(ls "$work/right" | wc -l) of ${#programs[@]} programs are right"
}
