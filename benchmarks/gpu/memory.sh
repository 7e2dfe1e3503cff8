# What a run holds of the card: the plan, the runtime's account of it, and the change of what nvidia-smi says is used.
# memory.py compares them; the card has to be nobody else's meanwhile.
measured=${fixtures[0]}

pack() {
  pack_trained "$measured" shard=1 && pack_trained "$measured" shard=2 --cluster h100-sxm
}

# check PROGRAM RANKS OPTION...
check() {
  local words
  "$here/bin/fsdp-run" "$here/programs/$1.so" --describe >"$work/manifest.json" || return
  program "$1" -n "$2" --lr 0.001 --steps 1000000 --log-every 1000000 --metrics "$work/memory.jsonl" "${@:3}"
  python3 "$here/gpu/memory.py" "$work" "$2" "${words[@]}"
}

run() {
  expect "$measured, one rank" check "$measured-1" 1
  expect "$measured, two ranks" check "$measured-2" 2 --backend tcp
  # What part speed-gpt2 packs: gigabytes, too much for an emulated card.
  if [ -f "$here/programs/model-gpt2.so" ] && command -v nvidia-smi >/dev/null; then
    expect "GPT-2 124M, one rank" check model-gpt2 1
  fi
}
