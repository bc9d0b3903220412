# shellcheck shell=bash
# Functions of the scripts beside this file: installing missing packages, configuring, building.
# The scripts source this file; it is no program of its own.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/wheels.sh
source "$top/scripts/wheels.sh"
build="$top/build"
jobs=$(nproc)
# This version also reads the machine code of older toolkits.
nvdisasm_version=13.5.37

say() { printf '== %s\n' "$*" >&2; }

# Runs a command and shows its output only after a failure: quietly "$log" "$@".
quietly() {
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    say "failed: $* (all of it in $log)"
    return 1
  fi
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

# The newest complete installation of LLVM 22 to 19, else the newest that apt offers.
llvm_version() {
  local version
  for version in 22 21 20 19; do
    if installed "llvm-$version-dev" && installed "llvm-$version-tools"; then
      echo "$version"
      return
    fi
  done
  for version in 22 21 20 19; do
    if apt-cache show "llvm-$version-dev" >/dev/null 2>&1; then
      echo "$version"
      return
    fi
  done
}

missing_packages() {
  local package
  for package in cmake ninja-build g++ python3 libfmt-dev doctest-dev libbenchmark-dev zlib1g-dev \
    libzstd-dev liblz4-dev "$@"; do
    installed "$package" || printf '%s ' "$package"
  done
}

# Runs its arguments as root: directly, by sudo, or not at all, and then prints the command to run.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

can_be_root() {
  [ "$(id -u)" = 0 ] && return
  # Without a terminal sudo cannot ask for a password.
  command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}

need_root_for() {
  can_be_root && return
  say "some packages are missing and this is neither root nor able to use sudo; run this, then try again:"
  printf '%s\n' "$1" >&2
  exit 1
}

# Runs only once: a fresh machine has no list of packages.
look_up_packages() {
  [ -z "${looked_up:-}" ] || return 0
  local log
  log=$(mktemp)
  say "looking up packages"
  quietly "$log" as_root apt-get update
  rm -f "$log"
  looked_up=yes
}

# Installs packages from apt's present lists.
install() {
  local log
  log=$(mktemp)
  say "installing $*"
  quietly "$log" as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "$@"
  rm -f "$log"
}

install_missing() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "no apt here: taking what is installed (needed: cmake, ninja, g++, python3, fmt, doctest, benchmark, LLVM 19 to 22)"
    return
  fi
  local version missing
  version=$(llvm_version)
  if [ -z "$version" ] || [ -n "$(missing_packages "llvm-$version-dev" "llvm-$version-tools")" ]; then
    # The available versions of LLVM show only after an update.
    missing=$(missing_packages ${version:+"llvm-$version-dev" "llvm-$version-tools"})
    [ -n "$version" ] || missing+="llvm-19-dev llvm-19-tools"
    local line="apt-get update && apt-get install -y --no-install-recommends $missing"
    [ -n "$version" ] || line+="  # instead of 19, the newest of 22 to 19 that apt then offers"
    need_root_for "$line"
    look_up_packages
    version=$(llvm_version)
    if [ -z "$version" ]; then
      say "apt offers no LLVM of 22 to 19, which tally-ptxopt is built on"
      exit 1
    fi
    missing=$(missing_packages "llvm-$version-dev" "llvm-$version-tools")
    # shellcheck disable=SC2086
    install $missing
  fi
}

# install_more PACKAGE...: installs further packages of a script; @ in a name is the version of LLVM.
install_more() {
  local missing
  command -v apt-get >/dev/null || return 0
  missing=$(missing_packages "${@//@/$(llvm_version)}")
  [ -n "$missing" ] || return 0
  need_root_for "apt-get update && apt-get install -y --no-install-recommends $missing"
  look_up_packages
  # shellcheck disable=SC2086
  install $missing
}

# install_for_tests PACKAGE...: installs packages of single tests, which are skipped without them.
install_for_tests() {
  local missing
  command -v apt-get >/dev/null || return 0
  missing=$(missing_packages "${@//@/$(llvm_version)}")
  if [ -n "$missing" ] && ! can_be_root; then
    say "tests that need these packages will be skipped: $missing"
    return
  fi
  install_more "$@"
}

# Fetches the CUDA Toolkit's disassembler by pip, if the toolkit was installed without it.
fetch_nvdisasm() {
  local folder=$build/nvdisasm wheel=nvidia-cuda-nvdisasm
  if ! command -v nvcc >/dev/null || command -v nvdisasm >/dev/null || [ -x "$folder/bin/nvdisasm" ]; then
    return
  fi
  say "fetching nvdisasm"
  mkdir -p "$folder/bin"
  if ! quietly "$build/nvdisasm.log" fetch "$wheel" "$nvdisasm_version"; then
    say "tests that look at machine code will be skipped"
    return
  fi
  mv "$folder/$wheel-$nvdisasm_version"/nvidia/*/bin/nvdisasm "$folder/bin/"
  chmod +x "$folder/bin/nvdisasm"
  rm -rf "${folder:?}/$wheel-$nvdisasm_version"
}

# nvcc is optional. If it is not on the PATH, it is usually in this folder.
find_cuda() {
  if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
    PATH="/usr/local/cuda/bin:$PATH"
    export PATH
  fi
}

# Configures by the preset release, or by another preset of the same folder: BUILD_PRESET=ci.
configure() {
  mkdir -p "$build"
  say "configuring"
  (cd "$top" && quietly "$build/configure.log" cmake --preset "${BUILD_PRESET:-release}")
  grep -E '^-- (LLVM|No LLVM|CUDA Toolkit|No CUDA)' "$build/configure.log" >&2 || true
}

# Shows one in ten of ninja's lines.
show_progress() {
  local line tenth shown=-1
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    tenth=$((BASH_REMATCH[1] * 10 / BASH_REMATCH[2]))
    if [ "$tenth" != "$shown" ]; then
      printf '   %s of %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
      shown=$tenth
    fi
  done
}

# build_targets TARGET...: builds the targets, or all targets without a name.
build_targets() {
  local log="$build/build.log" arguments=()
  [ $# -gt 0 ] && arguments=(--target "$@")
  say "building"
  if ! NINJA_STATUS='[%f/%t] ' cmake --build "$build" -j "$jobs" "${arguments[@]}" 2>&1 </dev/null |
    tee "$log" | show_progress; then
    grep -vE '^\[[0-9]+/[0-9]+\]' "$log" | tail -n 60 >&2
    say "the build failed (all of it in $log)"
    exit 1
  fi
}

prepare() {
  install_missing
  find_cuda
  configure
  build_targets "$@"
}
