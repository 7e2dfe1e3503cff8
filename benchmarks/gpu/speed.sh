# A step of a model of models.json beside PyTorch's, eager and by torch.compile, in one run: products in bf16 of parameters
# that are kept in f32, AdamW, one rank. Ours runs before and after PyTorch's, so that a change of the card's clock shows.
model=${part#speed-}

# field NAME: of the model's entry.
field() {
  python3 "$here/gpu/speed.py" field "$model" "$1"
}

pack() {
  local step config
  step=$(mktemp -d)
  config=$(field config)
  PYTHONPATH=$root/tools/fsdp-export/src "$python" -B -m fsdp_export "hf:$(field arch)" ${config:+--config "$config"} \
    --batch "$(field batch)" --seq "$(field seq)" --skip-init --no-verify -o "$step/model" &&
    compile "speed-$model" "$step/model" --optimizer-file "$step/model/optimizer.mlir" --mesh shard=1 --param-dtype bf16 ||
    exit 1
  rm -r "$step"
}

ours() {
  local out=$work/speed-$model-$1
  mkdir -p "$out"
  program "speed-$model" --device cuda --algorithms fastest --init seed=0 --data random:seed=0 --lr 0.0001 --steps "$steps" \
    --quiet --metrics "$out/metrics.jsonl" --log-every 1000000
}

peer() {
  python3 "$here/gpu/speed.py" peer "$model" "$1" "$steps" "${FSDP_GPU_TORCH:-cuda}" >"$work/speed-$model-$1.json"
}

run() {
  steps=${FSDP_GPU_STEPS:-30}
  expect "$model, compiled here" ours before
  expect "$model, eager" peer eager
  expect "$model, torch.compile" peer compile
  expect "$model, compiled here, again" ours after
  expect "table" python3 "$here/gpu/speed.py" table "$model" "$work/speed-$model-before/metrics.jsonl" \
    "$work/speed-$model-after/metrics.jsonl" "$work/speed-$model-eager.json" "$work/speed-$model-compile.json"
}
