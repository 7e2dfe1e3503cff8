# For tools/quickstart and tools/check, which source it: steps with their times, and packages.
# shellcheck shell=bash disable=SC2034

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8
jobs=$(nproc)
began=$SECONDS
step_name=

# step NAME: ends the step before and starts another. A step that fails is named.
step() {
  end_step
  step_name=$1
  step_began=$SECONDS
  printf '\n==> %s\n' "$step_name"
}
end_step() {
  [ -z "$step_name" ] || printf '    (%s: %d s)\n' "$step_name" $((SECONDS - step_began))
  step_name=
}
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
on_exit() {
  local status=$?
  if [ $status != 0 ] && [ -n "$step_name" ]; then
    printf '\nFAILED in the step "%s", after %d s\n' "$step_name" $((SECONDS - began)) >&2
  fi
}
trap on_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What building and running need, and what testing needs beside it.
build_packages=(
  ccache clang-22 cmake libclc-22 libdnnl-dev libgmock-dev libgtest-dev libmlir-22-dev libopenblas0-pthread
  libopenmpi-dev libxxhash-dev lld-22 llvm-22 llvm-22-dev llvm-22-tools mlir-22-tools ninja-build
  nlohmann-json3-dev openmpi-bin zlib1g-dev
)
# (g++ and pkg-config for the programs of others that the tests build, chromium for pages, OpenBLAS' headers for
# the programs of benchmarks/.)
check_packages=(chromium g++ iproute2 libclang-rt-22-dev libopenblas-dev pkg-config python3)

# The packages among the arguments that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -- "$@"
  fi
}

is_known() {
  [ -n "$(apt-cache --quiet=2 search --names-only "^$1\$")" ]
}

# MLIR 22 comes with Debian 12's security updates, which the smallest installations do not list. They
# stand beside the release, on the mirror that this machine has for it.
enable_security_updates() {
  local list=/etc/apt/sources.list.d/bookworm-security.list mirror
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' \
    'Codename: bookworm' 'Created-By: Packages' | sed -n 's,/debian/*$,/debian-security,p' | head -n 1)
  [ -n "$mirror" ] ||
    fail "expected a package libmlir-22-dev, got none; please add the suite bookworm-security to apt's sources"
  echo "adding the suite bookworm-security in $list: MLIR 22 is a security update of Debian 12"
  echo "deb $mirror bookworm-security main" | as_root tee "$list" >/dev/null
  as_root apt-get -q update
  is_known libmlir-22-dev && return
  as_root rm "$list"
  fail "expected a package libmlir-22-dev in bookworm-security on $mirror, got none"
}

install_packages() {
  local missing
  command -v dpkg-query >/dev/null || fail "expected Debian 12, got a system without dpkg"
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} = 0 ]; then
    echo "all there"
    return
  fi
  [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] ||
    echo "warning: expected Debian 12 (bookworm), got $(. /etc/os-release && echo "${PRETTY_NAME:-another system}")"
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "these packages are missing, and installing them takes root or sudo: ${missing[*]}"
  fi
  as_root apt-get -q update
  is_known libmlir-22-dev || enable_security_updates
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 \
    install --no-install-recommends "${missing[@]}"
}

# quietly LOG COMMAND...: shows what it said only where it failed.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 && return
  tail -n 100 "$log" >&2
  fail "$1 failed; all that it said is in $log"
}
