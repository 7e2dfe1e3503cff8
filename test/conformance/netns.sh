#!/bin/sh
# Runs the conformance suite over the mpi backend on two "hosts": network
# namespaces that share nothing but a veth pair, so that every byte between them
# crosses TCP. usage: netns.sh MPIRUN PROGRAM
# Exits 77 where this is not permitted, saying why.
set -eu
mpirun=$1
program=$2

skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for tool in ip unshare hostname; do
  command -v "$tool" >/dev/null || skip "no $tool on PATH"
done

a=fsdp-a-$$
b=fsdp-b-$$
scratch=$(mktemp -d)
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

ip netns add "$a" 2>/dev/null || skip "may not create network namespaces"
ip netns add "$b"
ip netns exec "$a" true 2>/dev/null || skip "may not enter network namespaces"
ip link add fsdpa$$ netns "$a" type veth \
  peer name fsdpb$$ netns "$b" 2>/dev/null || skip "may not create veth pairs"
ip -n "$a" addr add 10.213.7.1/24 dev fsdpa$$
ip -n "$b" addr add 10.213.7.2/24 dev fsdpb$$
ip -n "$a" link set fsdpa$$ up
ip -n "$b" link set fsdpb$$ up
ip -n "$a" link set lo up
ip -n "$b" link set lo up

# Stands for ssh: remote HOST COMMAND... A host name of its own keeps Open MPI
# from taking the two for one host.
cat >"$scratch/remote" <<REMOTE
#!/bin/sh
[ "\$1" = 10.213.7.2 ] || exit 1
shift
command="\$*"
export command
exec ip netns exec $b unshare --uts \
  sh -c 'hostname fsdp-b && exec sh -c "\$command"'
REMOTE
chmod +x "$scratch/remote"

# run RANKS PROGRAM-ARGUMENTS...
run() {
  ranks=$1
  shift
  half=$((ranks / 2))
  ip netns exec "$a" unshare --uts sh -c 'hostname fsdp-a && exec "$@"' sh \
    "$mpirun" --allow-run-as-root --bind-to none --tag-output -n "$ranks" \
    --host "10.213.7.1:$half,10.213.7.2:$half" \
    --mca plm rsh --mca plm_rsh_agent "$scratch/remote" \
    --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include 10.213.7.0/24 \
    --mca oob_tcp_if_include 10.213.7.0/24 \
    "$program" "$@" </dev/null
}

echo "== the suite, 2 ranks on each of 2 hosts"
run 4 '--gtest_filter=Conformance.*' --gtest_brief=1
crossed=$(ip netns exec "$b" cat /sys/class/net/fsdpb$$/statistics/rx_bytes)
if [ "$crossed" -lt 10000000 ]; then
  echo "expected the suite's megabytes on the link, got $crossed bytes"
  exit 1
fi

echo "== a failure on one host reaches the other"
if run 4 --case=fail-large >"$scratch/log" 2>&1; then
  echo "expected a failure, got success"
  exit 1
fi
if ! grep -q 'error: rank 3: disk on fire' "$scratch/log"; then
  cat "$scratch/log"
  exit 1
fi
