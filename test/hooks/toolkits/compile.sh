#!/usr/bin/env bash
# compile.sh VERSION FOLDER COMMANDS [INCLUDE_DIR...]: checks that all sources of lib/emulated_cuda, lib/hooks
# and lib/runtime that include CUDA's headers compile with those of CUDA VERSION, and that the hooks know each
# function of the driver that is new there. pip fetches the headers into FOLDER, which keeps them. COMMANDS:
# the build's compile_commands.json; INCLUDE_DIR: the headers of its own toolkit. scripts/toolkits also builds
# and links with that toolkit, and runs calls.cpp.
set -euo pipefail
version=$1 commands=$3
source=$(cd "$(dirname "$0")/../../.." && pwd)
folder=$(mkdir -p "$2" && cd "$2" && pwd)
shift 3
source "$source/scripts/wheels.sh"

fail() { printf '== WRONG: %s\n' "$*" >&2 && exit 1; }
leave_out="or configure with -DTALLY_TEST_TOOLKITS= to leave the toolkits out"

has_pip || fail "python3 has no pip, by which the headers of CUDA $version are fetched: install it (Debian: python3-pip), $leave_out"
lay_out "$version" || fail "no headers of CUDA $version; mend that, $leave_out"
include=$folder/cuda-$version/include
python3 "$source/test/hooks/driver_rows.py" "$include/cuda.h" "$source/lib/hooks/tables/driver_api.def"
python3 "$source/test/hooks/toolkits/compile.py" "$commands" "$include" "$source" "$@"
