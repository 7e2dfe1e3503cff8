# A tuning table of the card: the shapes of attentions and reductions that are fastest there, for fsdp-compile --tuning.
# Models of one layer, which keep the card busy, are compiled with a table of each candidate; their profiles say which one
# is the fastest. A name says the model's head size.
tuned=(${FSDP_GPU_TUNED:-head64 head128})

pack() {
  local name tables table
  for name in "${tuned[@]}"; do
    tables=$packs/tuning/$name
    mkdir -p "$tables"
    python3 "$here/gpu/tune.py" candidates "$tables" "$([[ $name =~ head([0-9]+) ]] && echo "${BASH_REMATCH[1]}")" \
      ${FSDP_GPU_QUICK:+--quick} || return
    for table in "$tables"/*.json; do
      pack_model "$name:tune-$name-$(basename "$table" .json)" --tuning "$table" || return
    done
  done
}

# measure MODEL: fails if a candidate does; the others are measured all the same.
measure() {
  local name=$1 table candidate failed=0 words
  mkdir -p "$work/tune/$name"
  for table in "$here/tuning/$name"/*.json; do
    candidate=$(basename "$table" .json)
    program "tune-$name-$candidate" --lr 0.0001 --steps "${FSDP_GPU_STEPS:-20}" --quiet \
      --profile "$work/tune/$name/$candidate.profile"
    limited "${words[@]}" || failed=1
  done
  return "$failed"
}

run() {
  local name
  for name in "${tuned[@]}"; do
    expect "$name, each candidate" measure "$name"
  done
  expect "table" python3 "$here/gpu/tune.py" table "$here/tuning" "$work/tune" "$log/tuning.json"
}
