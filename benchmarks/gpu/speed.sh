# A step of a model of models.json: products in bf16 of parameters that are kept in f32, AdamW, one rank; and the time of
# each kernel in it. Part torch has PyTorch's.
model=${part#speed-}

pack() {
  pack_model "$model"
}

# measure HOW OPTION...
measure() {
  time_steps "$model.$1" "$(program_of "$model")" "${@:2}"
}

# profile_steps HOW OPTION...: steps whose calls are issued and timed one by one.
profile_steps() {
  local words file=$log/$model.$1.profile.json
  program "$(program_of "$model")" --lr 0.0001 --steps "${FSDP_GPU_STEPS:-10}" --profile "$file" --quiet "${@:2}"
  echo "-- profile, $1"
  limited "${words[@]}" && python3 "$here/gpu/speed.py" profile "$file"
}

run() {
  expect "$model, our attention" measure own --attention own
  expect "$model, our attention, by kernel" profile_steps own --attention own
  expect "$model, whose attention is faster" measure auto --attention auto
  expect "$model, the fastest algorithms" measure fastest --attention auto --algorithms fastest
  expect "$model, the fastest algorithms, by kernel" profile_steps fastest --attention auto --algorithms fastest
  expect "$model, call by call" measure calls --attention own --graph off
  expect "table" python3 "$here/gpu/speed.py" table "$log" "$model"
}
