# A tuning table of the card: the shapes of attentions and reductions that are fastest there, for fsdp-compile --tuning.
# Models of one layer are compiled with a table of each candidate; their profiles say which one is the fastest. A name says
# the model's head size; FSDP_GPU_TUNED=gpt2-head64-bf16, a fixture, needs no torch.
tuned=(${FSDP_GPU_TUNED:-head64 head128})

pack() {
  local name step tables table options
  tables=$(mktemp -d)
  for name in "${tuned[@]}"; do
    locate_model "$name" "$tables" || exit 1
    mkdir "$tables/tables-$name"
    python3 "$here/gpu/tune.py" candidates "$tables/tables-$name" "$([[ $name =~ head([0-9]+) ]] && echo "${BASH_REMATCH[1]}")" || exit 1
    for table in "$tables/tables-$name"/*.json; do
      compile "tune-$name-$(basename "$table" .json)" "$step" --optimizer-file "$step/optimizer.mlir" --mesh shard=1 \
        "${options[@]}" --tuning "$table" || exit 1
    done
    mkdir -p "$packs/tuning/$name" && cp "$tables/tables-$name"/*.json "$packs/tuning/$name/" || exit 1
  done
  rm -r "$tables"
}

# measure MODEL: fails if a candidate does; the others are measured all the same.
measure() {
  local name=$1 table candidate failed=0
  for table in "$here/tuning/$name"/*.json; do
    candidate=$(basename "$table" .json)
    mkdir -p "$work/tune/$name"
    program "tune-$name-$candidate" --device cuda --init seed=0 --data random:seed=0 --lr 0.0001 \
      --steps "${FSDP_GPU_STEPS:-20}" --quiet --profile "$work/tune/$name/$candidate.profile" || failed=1
  done
  return "$failed"
}

run() {
  local name
  for name in "${tuned[@]}"; do
    expect "$name, each candidate" measure "$name"
  done
  expect "table" python3 "$here/gpu/tune.py" table "$here/tuning" "$work/tune" "$here/log/tuning.json"
}
