# Times of our own kernels on the card, as a device table (docs/cluster.md): programs of one kind of kernel each, by size,
# run with --profile; what a launch takes follows from steps with many and with twice as many small kernels.
pack() {
  local steps=$work/calibrate step
  mkdir "$steps"
  python3 -B "$here/gpu/calibrate.py" steps "$here/calibrate" "$steps" ${FSDP_GPU_QUICK:+--quick} || return
  for step in "$steps"/*; do
    compile "calibrate-${step##*/}" "$step" --mesh shard=1 --optimizer sgd || return
  done
}

# measure NAME FILE OPTION...
measure() {
  local words
  program "calibrate-$1" --quiet "${@:3}"
  rm -f "$2"
  limited "${words[@]}"
}

run() {
  local program name graph out=$work/calibrate
  [ "$FSDP_GPU_GRAPH" = auto ] || skip "graphs do not run here (part facts)"
  mkdir "$out"
  for program in "$here"/programs/calibrate-*.so; do
    name=${program##*/calibrate-} name=${name%.so}
    measure "$name" "$out/$name.profile" --steps 6 --profile "$out/$name.profile" || { echo "FAILED: $name"; failed=1; }
    [[ $name = launch-* ]] || continue
    for graph in off on; do
      measure "$name" "$out/$name.$graph" --steps 30 --graph "$graph" --metrics "$out/$name.$graph" ||
        { echo "FAILED: $name, --graph $graph"; failed=1; }
    done
  done
  [ "$failed" -ne 0 ] || expect "device table" python3 "$here/gpu/calibrate.py" table "$out" "$log/device-table.json"
}
