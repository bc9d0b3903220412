# Functions of scripts/toolkits and test/hooks/toolkits: parts of CUDA Toolkits and CMakes from the wheels of
# PyPI. The scripts source this file; it is no program of its own. `folder` names the folder of the parts; the
# functions do not fetch a part twice.

# has_pip: whether the machine can fetch wheels.
has_pip() { python3 -m pip --version >/dev/null 2>&1; }

# fetch NAME VERSION: unpacks the newest wheel of NAME-VERSION.* to $folder/NAME-VERSION.
fetch() {
  local to=$folder/$1-$2 wheel=$folder/wheel-$1-$2
  [ -d "$to" ] && return
  rm -rf "$wheel" "$to.part"
  if ! python3 -m pip download --quiet --no-deps --dest "$wheel" "$1==$2.*"; then
    printf '== pip cannot fetch %s %s (why is above); without a network put %s there from a machine that has one\n' "$1" "$2" "$to" >&2
    return 1
  fi
  python3 -m zipfile -e "$wheel"/*.whl "$to.part" && rm -rf "$wheel" && mv "$to.part" "$to"
}

# lay_out VERSION: lays out a toolkit's folder for CMake, at $folder/cuda-VERSION. Its nvcc only prints its
# version.
lay_out() {
  local version=$1 to=$folder/cuda-$1 parts part
  case $version in
  12.*) parts=(nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12) ;;
  *) parts=(nvidia-cuda-runtime nvidia-cuda-crt) ;;
  esac
  for part in "${parts[@]}"; do
    fetch "$part" "$version" || return
  done
  rm -rf "$to" && mkdir -p "$to/include" "$to/lib64" "$to/bin"
  for part in "${parts[@]}"; do
    cp -r "$folder/$part-$version"/nvidia/*/include/. "$to/include/"
    cp -r "$folder/$part-$version"/nvidia/*/lib/. "$to/lib64/" 2>/dev/null || true
  done
  (cd "$to/lib64" && ln -sf libcudart.so.* libcudart.so)
  printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s.0"\n' "$version" "$version" >"$to/bin/nvcc"
  chmod +x "$to/bin/nvcc"
}
