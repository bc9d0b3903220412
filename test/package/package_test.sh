#!/usr/bin/env bash
# package_test.sh NAME: one test of the installed package; CMakeLists.txt beside this sets the
# environment. Exit status 77: skipped, with the reason.
set -euo pipefail
prefix=$SCRATCH/prefix runtime=$SCRATCH/prefix-runtime
size=128

say() { printf '== %s\n' "$*"; }
fail() { say "WRONG: $*" && exit 1; }
skip() { say "skipped: $*" && exit 77; }
need_nvcc() { [ -n "$NVCC" ] && [ -x "$NVCC" ] || skip "no nvcc here"; }

# run_enabled BINARY: runs it on the emulator, plainly and yielding; it needs no libLLVM.
run_enabled() {
  ! ldd "$1" | grep LLVM || fail "$1 needs libLLVM"
  TALLY_DEVICE=emulator SIZE=$size STORM_US=50 "$SOURCE/examples/outside/check" "$1"
}

# configure DIRECTORY OPTION...: configures examples/outside, enabled, against the installed package.
configure() {
  local directory=$1
  shift
  "$CMAKE" -S "$SOURCE/examples/outside" -B "$directory" -DOUTSIDE_TALLY=ON \
    "-DCMAKE_PREFIX_PATH=$prefix" "$@" >"$directory.log" 2>&1 ||
    { tail -n 30 "$directory.log"; fail "cannot configure"; }
}

test_install() {
  rm -rf "$prefix" "$runtime"
  "$CMAKE" --install "$BUILD" --prefix "$prefix" --component runtime >"$SCRATCH/install.log"
  "$CMAKE" --install "$BUILD" --prefix "$prefix" --component tools >>"$SCRATCH/install.log"
  "$CMAKE" --install "$BUILD" --prefix "$runtime" --component runtime >>"$SCRATCH/install.log"
  ! find "$runtime" -name '*ptxopt*' | grep . || fail "the runtime brings tools"
  ! grep -rlE 'find_(package|dependency)\(LLVM' "$runtime" | grep . ||
    fail "the runtime's CMake package wants LLVM"
  ! grep -rl "$BUILD" "$prefix" --include='*.cmake' | grep . || fail "the build's paths are installed"
  local members
  members=$(ar t "$runtime/lib/libtally_runtime.a" | sort | tr '\n' ' ')
  [ "$members" = "tally_driver.o tally_hooks.o tally_runtime.o " ] || fail "other objects in the archive than the three: $members"
}

# global_names FILE [-D]: the file's global and defined names by nm.
global_names() { nm -g --defined-only --format=posix "${@:2}" "$1" | awk 'NF > 2 { print $1 }' | sort -u; }

# others KIND...: prints the names of standard input that global_names.txt does not list under these kinds.
others() {
  local kinds=$* names=$SOURCE/cmake/package/global_names.txt
  grep -vxE "$(sed -nE "s/^(${kinds// /|}) //p" "$names" | paste -sd '|')" || true
}

# The archive's objects export the C interface and the names that hooks need, and nothing else.
test_symbols() {
  local archive=$runtime/lib/libtally_runtime.a name leaked
  rm -rf "$SCRATCH/symbols" && mkdir "$SCRATCH/symbols" && cd "$SCRATCH/symbols"
  leaked=$(global_names "$archive" | others interface wrapper shared)
  [ -z "$leaked" ] || fail "names in the archive that are not in global_names.txt: $leaked"
  ar x "$archive"
  [ "$(global_names tally_driver.o)" = _ZN5tally7runtime18tallySharedDriver1E ] || fail "tally_driver.o: $(global_names tally_driver.o)"
  leaked=$(global_names tally_runtime.o | others interface)
  [ -z "$leaked" ] || fail "tally_runtime.o has more than the C interface: $leaked"
  for name in $(global_names "$archive" | grep -v ^__wrap_ | others shared); do
    grep -qE "\b$name\(" "$runtime"/include/tally/*.h || fail "no header declares $name"
  done
  global_names tally_hooks.o >hooks.names
  for name in $(global_names tally_runtime.o); do
    grep -qx "__wrap_$name" hooks.names || fail "tally_hooks.o has no __wrap_$name"
    grep -qx -- "-Wl,--wrap=$name" "$runtime/lib/tally/tally-link-options" || fail "relinked programs call another $name"
  done
  # The test finds an added name.
  printf 'namespace tally { int leaked() { return 1; } }\n' | "${CXX:-g++}" -x c++ -c -o leaking.o -
  cp "$archive" leaking.a && ar r leaking.a leaking.o
  [ "$(global_names leaking.a | others interface wrapper shared)" = _ZN5tally6leakedEv ] || fail "a leaked name is not seen"
}

test_cmake_ninja() {
  need_nvcc
  rm -rf "$SCRATCH/ninja"
  configure "$SCRATCH/ninja" -G Ninja "-DCMAKE_CUDA_COMPILER=$NVCC"
  "$CMAKE" --build "$SCRATCH/ninja"
  run_enabled "$SCRATCH/ninja/outside"
}

# With a compiler launcher of the project's own, and options.
test_cmake_make() {
  need_nvcc
  rm -rf "$SCRATCH/make" "$SCRATCH/launched"
  printf '#!/bin/sh\necho "$@" >>"%s"\nexec "$@"\n' "$SCRATCH/launched" >"$SCRATCH/launcher"
  chmod +x "$SCRATCH/launcher"
  configure "$SCRATCH/make" -G "Unix Makefiles" "-DCMAKE_CUDA_COMPILER=$NVCC" \
    "-DCMAKE_CUDA_COMPILER_LAUNCHER=$SCRATCH/launcher"
  "$CMAKE" --build "$SCRATCH/make"
  [ "$(grep -c -- '-d\?c .*\.cu' "$SCRATCH/launched")" -ge 6 ] || fail "the launcher was not kept"
  run_enabled "$SCRATCH/make/outside"
}

test_makefile() {
  need_nvcc
  mkdir -p "$SCRATCH/makefile" && cd "$SCRATCH/makefile"
  rm -f ./*
  PATH="$(dirname "$NVCC"):$PATH" make -f "$SOURCE/examples/outside/Makefile" "TALLY=$prefix"
  # If the loader does not know the folder of the toolkit's libraries, cuBLAS among them, CMake writes it into
  # the program; make does not.
  LD_LIBRARY_PATH="$(dirname "$(dirname "$NVCC")")/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" run_enabled ./outside
}

# One command compiles and links, whole-program and relocatable.
test_one_step() {
  need_nvcc
  local inputs=$SOURCE/test/ptxopt/containers/Inputs
  local link=(--options-file "$prefix/lib/tally/tally-link-options.nvcc" "-L$prefix/lib" -ltally_runtime)
  mkdir -p "$SCRATCH/one" && cd "$SCRATCH/one"
  rm -f ./*
  { cat "$inputs/factor.cu" && grep -v '^extern' "$inputs/main-of-two.cu"; } >whole.cu
  "$prefix/bin/tally-ptxopt" --compile -- "$NVCC" -arch=sm_90 whole.cu -o whole "${link[@]}"
  "$prefix/bin/tally-ptxopt" --compile -- "$NVCC" -arch=sm_90 -rdc=true "$inputs/main-of-two.cu" "$inputs/factor.cu" \
    -o relocatable "${link[@]}"
  local program
  for program in whole relocatable; do
    TALLY_DEVICE=emulator TALLY_CLASS=best-effort TALLY_RUN_AHEAD_US=0 TALLY_STATS=1 "./$program" >"$program.log" 2>&1 || fail "$program: $(cat "$program.log")"
    grep -q '^twice each' "$program.log" && grep -q '1 best effort (1 through variants' "$program.log" || fail "$program: $(cat "$program.log")"
  done
}

# Objects joined by ld -r, in one section or several, then rewritten; and objects rewritten, then joined and
# linked with separate sections. All launches go through variants.
test_joined() {
  need_nvcc
  local link=(--options-file "$prefix/lib/tally/tally-link-options.nvcc" "-L$prefix/lib" -ltally_runtime)
  local program
  mkdir -p "$SCRATCH/joined" && cd "$SCRATCH/joined"
  rm -f ./*
  local part
  for part in 1 2; do
    printf '__global__ void add(int *p) { p[threadIdx.x] += %s; }\nvoid run%s(int *p) { add<<<1, 32>>>(p); }\n' $part $part >$part.cu
    sed -i 's/void add/static void add/' $part.cu
    "$NVCC" -arch=sm_90 -c $part.cu -o $part.o
    "$prefix/bin/tally-ptxopt" $part.o -o rewritten$part.o
  done
  cat >main.cpp <<'END'
#include <cstdio>
#include <cuda_runtime_api.h>
void run1(int *), run2(int *);
int main() {
  int *p = nullptr, x[32] = {};
  cudaMalloc(reinterpret_cast<void **>(&p), sizeof x);
  cudaMemset(p, 0, sizeof x);
  run1(p);
  run2(p);
  cudaMemcpy(x, p, sizeof x, cudaMemcpyDeviceToHost);
  std::printf("sum %d\n", x[31]);
}
END
  ld -r 1.o 2.o -o one.o
  ld -r --unique 1.o 2.o -o several.o
  ld -r --unique rewritten1.o 2.o -o half.o
  ld -r --unique rewritten1.o rewritten2.o -o before.o
  "$prefix/bin/tally-ptxopt" --in-place --strict --variants=slice,guard,persistent one.o several.o half.o
  for program in one several half before; do
    "$NVCC" -arch=sm_90 main.cpp $program.o -o $program "${link[@]}"
  done
  "$NVCC" -arch=sm_90 main.cpp before.o -o apart "${link[@]}" -Xlinker --unique
  for program in one several half before apart; do
    TALLY_DEVICE=emulator TALLY_CLASS=best-effort TALLY_RUN_AHEAD_US=0 TALLY_STATS=1 ./$program >$program.log 2>&1 || fail "$program: $(cat $program.log)"
    grep -q '^sum 3$' $program.log && grep -q '2 best effort (2 through variants' $program.log || fail "$program: $(cat $program.log)"
  done
}

# configure_own DIRECTORY NAME OPTION...: configures the project test/package/NAME.
configure_own() {
  local directory=$1 name=$2
  shift 2
  rm -rf "$directory"
  "$CMAKE" -S "$SOURCE/test/package/$name" -B "$directory" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" \
    "-DCMAKE_CUDA_COMPILER=$NVCC" "$@" >"$directory.log" 2>&1 || { tail -n 30 "$directory.log"; return 1; }
}

# Enabling a project does not change the dialect of its sources.
test_dialect() {
  need_nvcc
  configure_own "$SCRATCH/dialect" dialect || fail "cannot configure"
  "$CMAKE" --build "$SCRATCH/dialect" || fail "another dialect than the project's"
  ! grep -rlE 'cxx_std_|CXX_STANDARD' "$prefix/lib/cmake/tally" | grep . || fail "the package asks for a dialect"
}

# The package installs at most 16 headers. Each compiles alone, in C++17 to 23 and, if it is C, as C99, by g++
# and by clang, without a warning.
test_headers() {
  local header headers dialect compiler
  cd "$prefix/include"
  mapfile -t headers < <(find tally -type f | sort)
  [ "${#headers[@]}" -le 16 ] || fail "${#headers[@]} headers: ${headers[*]}"
  for compiler in "${CXX:-g++}" ${CLANG:+"$CLANG"}; do
    for header in "${headers[@]}"; do
      for dialect in c++17 c++20 c++23; do
        printf '#include "%s"\n' "$header" | "$compiler" -std=$dialect -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ -I. - ||
          fail "$header in $dialect by $compiler"
      done
    done
    for header in tally/tally.h tally/report.h tally/hooks.h tally/request.h; do
      printf '#include "%s"\n' "$header" | "$compiler" -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c -I. - ||
        fail "$header in C by $compiler"
    done
  done
}

# Programs of C and C++ that embed the runtime, those of docs/guide/embed.md too, outside of the tree and
# without a CUDA Toolkit.
test_embed() {
  local bundle=$BUILD/examples/quickstart/quickstart_kernels.tally
  rm -rf "$SCRATCH/embed"
  "$CMAKE" -S "$SOURCE/test/package/embed" -B "$SCRATCH/embed" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" \
    -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON >"$SCRATCH/embed.log" 2>&1 || { tail -n 30 "$SCRATCH/embed.log"; fail "cannot configure"; }
  "$CMAKE" --build "$SCRATCH/embed" || fail "cannot build"
  "$SCRATCH/embed/embed_c" "$bundle" || fail "embed_c"
  "$SCRATCH/embed/embed_cpp" "$bundle" emulator "$SCRATCH/embed/arena" || fail "embed_cpp"
  "$SCRATCH/embed/server" "$bundle" || fail "server"
  "$SCRATCH/embed/shared_server" "$bundle" || fail "shared_server"
}

# A project with Tally's source in its tree also keeps its dialect.
test_in_tree() {
  rm -rf "$SCRATCH/in_tree"
  "$CMAKE" -S "$SOURCE/test/package/in_tree" -B "$SCRATCH/in_tree" -G Ninja "-DTALLY_SOURCE=$SOURCE" >"$SCRATCH/in_tree.log" 2>&1 ||
    { tail -n 30 "$SCRATCH/in_tree.log"; fail "cannot configure"; }
  "$CMAKE" --build "$SCRATCH/in_tree" --target mine || fail "another dialect than the project's"
}

# A program without CUDA keeps the hooks, though it does not call them: they are there before its libraries
# look for the driver. Without any CUDA runtime, tally_enable() reports an error.
test_plain_program() {
  need_nvcc
  local program
  configure_own "$SCRATCH/plain" plain_program || fail "cannot configure"
  "$CMAKE" --build "$SCRATCH/plain"
  local leaked
  for program in main host embedding libkernels.so; do
    global_names "$SCRATCH/plain/$program" -D >"$SCRATCH/plain/$program.names"
    grep -q 'tallySharedHooks' "$SCRATCH/plain/$program.names" || fail "$program does not share the hooks' state"
    leaked=$(others shared <"$SCRATCH/plain/$program.names" | grep -vxE 'sumOfSquares|_ZN4dim3C[12]Ejjj' || true)
    [ -z "$leaked" ] || fail "$program gives out other names than its own and the shared: $leaked"
  done
  [ "$(nm "$SCRATCH/plain/embedding" | grep -cE ' [tT] (__wrap_)?tally_open$')" = 1 ] || fail "there is more than one runtime"
  for program in main host embedding; do
    TALLY_DEVICE=emulator TALLY_CLASS=best-effort TALLY_RUN_AHEAD_US=0 TALLY_STATS=1 "$SCRATCH/plain/$program" >"$SCRATCH/plain/$program.log" 2>&1 ||
      fail "$program: $(cat "$SCRATCH/plain/$program.log")"
    grep -q '^sum 328350$' "$SCRATCH/plain/$program.log" && grep -q ' 1 best effort (1 through variants' "$SCRATCH/plain/$program.log" ||
      fail "$program: $(cat "$SCRATCH/plain/$program.log")"
  done
  if configure_own "$SCRATCH/plain-none" plain_program -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON >"$SCRATCH/plain-none.said"; then
    fail "tally_enable() of a program without CUDA went through without a CUDA runtime"
  fi
  tr -s ' \n' ' ' <"$SCRATCH/plain-none.log" | grep -q "'main' has no CUDA sources" || fail "it does not say why"
}

# A profile of a run, given to tally_enable(), gives fewer kinds. With another profile the build rewrites the
# sources anew.
test_profiles() {
  need_nvcc
  local profile=$SCRATCH/profile-found library=$SCRATCH/profiles/libkernels.so
  found() { python3 "$SOURCE/test/ptxopt/tool/Inputs/profile.py" "$profile" "1 $1 9000 3000 4,1,1,32,1,1,0,0,0,0 _Z10addSquaresPii"; }
  listed() { "$prefix/bin/tally-ptxopt" --list "$library" | grep -q "$1" || fail "not $1: $("$prefix/bin/tally-ptxopt" --list "$library")"; }
  found guard
  configure_own "$SCRATCH/profiles" plain_program "-DPROFILES=$profile" || fail "cannot configure"
  "$CMAKE" --build "$SCRATCH/profiles"
  listed 'guard emitted, persistent refused not-in-profile'
  found persistent
  "$CMAKE" --build "$SCRATCH/profiles"
  listed 'guard refused not-in-profile, persistent emitted'
  TALLY_DEVICE=emulator TALLY_CLASS=best-effort TALLY_RUN_AHEAD_US=0 TALLY_STATS=1 "$SCRATCH/profiles/main" >"$SCRATCH/profiles/main.log" 2>&1 ||
    fail "main: $(cat "$SCRATCH/profiles/main.log")"
  grep -q '^sum 328350$' "$SCRATCH/profiles/main.log" && grep -q '1 persistent' "$SCRATCH/profiles/main.log" ||
    fail "main: $(cat "$SCRATCH/profiles/main.log")"
  ! configure_own "$SCRATCH/profiles-none" plain_program "-DPROFILES=$SCRATCH/no-such-file" >/dev/null || fail "a profile that is not there"
  tr -s ' \n' ' ' <"$SCRATCH/profiles-none.log" | grep -q "there is no file $SCRATCH/no-such-file" || fail "it does not say why"
}

# ccache caches enabled compiles like others: in a second build all of them are hits.
test_ccache() {
  need_nvcc
  command -v ccache >/dev/null || skip "no ccache here"
  local launched counted
  for launched in ON OFF; do
    export CCACHE_DIR=$SCRATCH/cached-$launched.ccache
    rm -rf "$CCACHE_DIR"
    configure_own "$SCRATCH/cached-$launched" cached -DLAUNCHED=$launched || fail "cannot configure"
    "$CMAKE" --build "$SCRATCH/cached-$launched"
    ccache -z >/dev/null
    "$CMAKE" --build "$SCRATCH/cached-$launched" --clean-first
    counted=$(ccache --print-stats | sort | tr '\t\n' '= ')
    [[ $counted == *"direct_cache_hit=2 "* && $counted == *"cache_miss=0 "* ]] || fail "launcher $launched: $counted"
    "$prefix/bin/tally-ptxopt" --list "$SCRATCH/cached-$launched/libkernels.so" | grep -q 'guard emitted' ||
      fail "launcher $launched: what came from the cache is not rewritten"
  done
}

# CMake up to 4.0 tries clang with sm_52, which CUDA 13 no longer knows, and links by a tool that Debian puts
# into another package. A compiler older than the toolkit's headers does not work here.
test_clang() {
  need_nvcc
  [ -n "$CLANG" ] && [ -x "$CLANG" ] || skip "no clang here"
  local toolkit
  toolkit=$(dirname "$(dirname "$NVCC")")
  printf '#!/bin/bash\nexec "%s" --no-offload-new-driver "${@/sm_52/sm_90}"\n' "$CLANG" >"$SCRATCH/clang-cuda"
  chmod +x "$SCRATCH/clang-cuda"
  local options=(--cuda-gpu-arch=sm_90 "--cuda-path=$toolkit" "-I$toolkit/include/cccl" -Wno-unknown-cuda-version)
  "$SCRATCH/clang-cuda" -x cuda "${options[@]}" -c "$SOURCE/examples/outside/src/filters.cu" \
    -o "$SCRATCH/probe.o" 2>"$SCRATCH/probe.log" || skip "this clang does not take this CUDA Toolkit: $(head -n 1 "$SCRATCH/probe.log")"
  rm -rf "$SCRATCH/clang"
  configure "$SCRATCH/clang" -G Ninja "-DCMAKE_CUDA_COMPILER=$SCRATCH/clang-cuda" \
    "-DCMAKE_CUDA_FLAGS=-I$toolkit/include/cccl -Wno-unknown-cuda-version"
  "$CMAKE" --build "$SCRATCH/clang"
  run_enabled "$SCRATCH/clang/outside"
}

# A changed source rebuilds its own object and no other; a new tally-ptxopt rebuilds all.
test_incremental() {
  need_nvcc
  local project=$SCRATCH/incremental changed
  rm -rf "$project" && mkdir "$project" && cp -r "$SOURCE/examples/outside" "$project/source"
  "$CMAKE" -S "$project/source" -B "$project/build" -G Ninja -DOUTSIDE_TALLY=ON \
    "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_CUDA_COMPILER=$NVCC" >"$project/log"
  build() { "$CMAKE" --build "$project/build" --target bodies | tee "$project/last"; }
  made_anew() { find "$project/build" -name '*.cu.o' -newer "$project/stamp" -printf '%f ' | sort; }
  build
  build
  grep -q 'no work to do' "$project/last" || fail "it builds again"
  touch "$project/stamp" && sleep 1
  touch "$project/source/src/force.cu"
  build
  [ "$(made_anew)" = "force.cu.o " ] || fail "made anew: $(made_anew)"
  touch "$project/stamp" && sleep 1
  touch "$prefix/bin/tally-ptxopt"
  build
  [ "$(made_anew | wc -w)" = 2 ] || fail "by a new tally-ptxopt made anew: $(made_anew)"
}

# A machine with only the runtime links and runs objects rewritten elsewhere.
test_relink() {
  need_nvcc
  local toolkit
  toolkit=$(dirname "$(dirname "$NVCC")")
  rm -rf "$SCRATCH/relink"
  "$CMAKE" -S "$SOURCE/test/package/relink" -B "$SCRATCH/relink" -G Ninja "-DCMAKE_PREFIX_PATH=$runtime" \
    "-DOBJECTS=$SCRATCH/ninja/CMakeFiles" "-DCUDA_LIBRARIES=$toolkit/lib64" >"$SCRATCH/relink.log" ||
    { tail -n 20 "$SCRATCH/relink.log"; fail "cannot configure"; }
  "$CMAKE" --build "$SCRATCH/relink"
  run_enabled "$SCRATCH/relink/filtered"
}

test_runtime_only() {
  need_nvcc
  rm -rf "$SCRATCH/only"
  if "$CMAKE" -S "$SOURCE/examples/outside" -B "$SCRATCH/only" -G Ninja -DOUTSIDE_TALLY=ON \
    "-DCMAKE_PREFIX_PATH=$runtime" "-DCMAKE_CUDA_COMPILER=$NVCC" >"$SCRATCH/only.log" 2>&1; then
    fail "tally_enable() without the tools went through"
  fi
  tr -s ' \n' ' ' <"$SCRATCH/only.log" | grep -q "rewriting kernels takes tally-ptxopt" ||
    { cat "$SCRATCH/only.log"; fail "it does not say what is missing"; }
}

test_debs() {
  command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null ||
    skip "no dpkg-deb, dpkg-shlibdeps or file"
  rm -rf "$SCRATCH/debs"
  (cd "$BUILD" && "$CPACK" -G DEB -B "$SCRATCH/debs") >"$SCRATCH/debs.log" 2>&1 || { tail -n 20 "$SCRATCH/debs.log"; fail "cpack"; }
  local runtime tools
  runtime=$(dpkg-deb -c "$SCRATCH"/debs/tally-runtime_*.deb)
  tools=$(dpkg-deb -c "$SCRATCH"/debs/tally-tools_*.deb)
  grep -q lib/libtally_runtime.a <<<"$runtime" || fail "no archive in tally-runtime"
  grep -q bin/tally-top <<<"$runtime" || fail "no tally-top in tally-runtime"
  grep -q "bin/tally$" <<<"$runtime" || fail "no tally in tally-runtime"
  grep -q bin/tally-ptxopt <<<"$tools" || fail "no tool in tally-tools"
  ! dpkg-deb -f "$SCRATCH"/debs/tally-runtime_*.deb Depends | grep -i llvm || fail "tally-runtime wants LLVM"
  local links wants # the same, whether LLVM is linked in (TALLY_STATIC_LLVM) or not
  links=$(ldd "$BUILD/tools/tally-ptxopt/tally-ptxopt" | grep -c libLLVM || true)
  wants=$(dpkg-deb -f "$SCRATCH"/debs/tally-tools_*.deb Depends | grep -ic llvm || true)
  [ $((links > 0)) = $((wants > 0)) ] || fail "tally-ptxopt uses $links LLVM libraries, and tally-tools wants $wants"
}

"test_$1"
