# What a run holds of the card: the plan, the runtime's account of it, and the change of what nvidia-smi says is used.
# memory.py compares them; the card has to be nobody else's meanwhile.
pack() {
  pack_trained gpt2 shard=1 && pack_trained gpt2 shard=2 --cluster h100-sxm
}

check() {
  program "$1" --describe >"$work/manifest.json" && python3 "$here/gpu/memory.py" "$here" "$work" "$@"
}

run() {
  expect "gpt2, one rank" check gpt2-1 1
  expect "gpt2, two ranks" check gpt2-2 2 --backend tcp
  # What part speed-gpt2 packs: gigabytes, too much for an emulated card.
  if [ -f "$here/programs/speed-gpt2.so" ] && command -v nvidia-smi >/dev/null; then
    expect "GPT-2 124M, one rank" check speed-gpt2 1
  fi
}
