# A program for each kind of kernel: modules.py's have the sizes of real models, those of test/Kernels each form of op that
# has been compiled wrongly. kernels.py runs them.
pack() {
  local steps step
  steps=$(mktemp -d)
  python3 -B "$here/gpu/steps.py" "$root" "$steps" kernels &&
    PYTHONPATH=$root/tools/fsdp-export/src "$python" -B "$here/gpu/modules.py" "$steps" || exit 1
  for step in "$steps"/*; do
    pack_step kernel- "$step" --mesh shard=1 || exit 1
  done
  rm -r "$steps"
}

run() {
  expect "all kernels" python3 "$here/gpu/kernels.py" "$here" "$work"
}
