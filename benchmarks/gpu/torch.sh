# The step of part speed by PyTorch, eager and by torch.compile: products in bf16 by autocast, parameters in f32, AdamW.
# Ours runs again beside them, so that a change of the card's clock shows.
model=${part#torch-}

pack() {
  pack_model "$model"
}

peer() {
  limited python3 "$here/gpu/speed.py" peer "$log/$model.torch-$1.json" "$model" "$1" "${FSDP_GPU_STEPS:-30}" \
    "${FSDP_GPU_TORCH:-cuda}"
}

run() {
  expect "$model, eager" peer eager
  expect "$model, ours" time_steps "$model.own-again" "$(program_of "$model")" --attention own
  expect "$model, torch.compile" peer compile
  expect "table" python3 "$here/gpu/speed.py" table "$log" "$model"
}
