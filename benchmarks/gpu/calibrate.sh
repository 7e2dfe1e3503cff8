# Times of our own kernels on the card, as a device table (docs/cluster.md): programs of one kind of kernel each, by size,
# run with --profile; what a launch takes follows from steps with few and with many small kernels.
pack() {
  local steps step
  steps=$(mktemp -d)
  python3 -B "$here/gpu/calibrate.py" steps "$here/calibrate" "$steps" ${FSDP_GPU_QUICK:+--quick} || exit 1
  for step in "$steps"/*; do
    compile "calibrate-${step##*/}" "$step" --mesh shard=1 --optimizer sgd || exit 1
  done
  rm -r "$steps"
}

run() {
  expect "device table" python3 "$here/gpu/calibrate.py" table "$here" "$work" "$here/log/device-table.json"
}
