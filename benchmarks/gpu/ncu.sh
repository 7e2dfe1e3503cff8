# Nsight Compute's view of the kernels that take longest in a model, as part speed measured it.
model=${FSDP_GPU_PROFILED:-gpt2}
kernels=${FSDP_GPU_KERNELS:-4}

pack() {
  pack_model "$model"
}

# profile_kernel NAME: the functions of a call's first launch, of which attention has two; clocks are left alone.
profile_kernel() {
  local words
  program "$(program_of "$model")" --graph off --dependent-launch off --steps 1 --lr 0.0001 --quiet
  limited ncu --set basic --clock-control none --kernel-name-base function --kernel-name "regex:^$1(_dq|_dkdv|_[0-9]+)?\$" \
    --launch-count 2 "${words[@]}"
}

run() {
  local words names name file=$log/$model.own.profile.json
  command -v ncu || skip "expected ncu on PATH, found none"
  if [ ! -f "$file" ]; then
    program "$(program_of "$model")" --lr 0.0001 --steps 5 --profile "$file" --quiet
    expect "profile" limited "${words[@]}" || return
  fi
  mapfile -t names < <(python3 "$here/gpu/speed.py" longest "$file" "$kernels")
  for name in "${names[@]}"; do
    expect "$name" profile_kernel "$name"
  done
}
