# Runs that are one launch of a CUDA graph, and runs that are issued call by call, have the same bits, with dependent launch
# and without; the times of their steps are of a model that keeps a card busy.
graphed=(${FSDP_GPU_FIXTURES:-gpt2 resnet})
launches=("on auto" "on off" "off auto" "off off")

pack() {
  local fixture
  pack_model "${busy[0]}" || return
  for fixture in "${graphed[@]}"; do
    pack_trained "$fixture" shard=1 || return
  done
}

# time_and_save NAME PROGRAM OPTION...
time_and_save() {
  time_steps "$1" "$2" --save "$work/$1/saved" "${@:3}"
}

# check COMMAND NAME PROGRAM OPTION...: the command leaves a checkpoint of each way.
check() {
  local how as first=
  for how in "${launches[@]}"; do
    as=$2.graph-${how/ /-}
    "$1" "$as" "$3" --graph "${how% *}" --dependent-launch "${how#* }" "${@:4}" || return
    [ -z "$first" ] || compare_bits "$first" "$as" || return
    first=$2.graph-on-auto
  done
}

run() {
  local fixture
  [ "$FSDP_GPU_GRAPH $FSDP_GPU_DEPENDENT_LAUNCH" = "auto auto" ] ||
    skip "--graph $FSDP_GPU_GRAPH --dependent-launch $FSDP_GPU_DEPENDENT_LAUNCH is all that runs here (part facts)"
  expect "${busy[0]}, and times" check time_and_save "${busy[0]}" "$(program_of "${busy[0]}")"
  for fixture in "${graphed[@]}"; do
    expect "$fixture" check train "$fixture" "$fixture-1" --lr 0.0001 --steps 4
  done
}
