# tally_kernels(NAME SOURCE.cu [HEADERS FILE...] [VARIANTS KIND,...]): compiles CUDA C++ to PTX, and
# the PTX to a bundle with every variant, or those named. Sets <NAME>_BUNDLE to the bundle's path,
# or to nothing where none can be made, and makes a target <NAME>.
#
# Without nvcc the function takes the .ptx that is checked in beside the source; a test compares the
# two where nvcc is of the same release. Without LLVM, and so without tally-ptxopt, bundles come
# ready from the directory TALLY_PREBUILT_BUNDLES, as <NAME>.tally.
set(TALLY_PREBUILT_BUNDLES "" CACHE PATH "Where ready bundles are, for a build without LLVM")

# Options such as --expt-… are dropped: the PTX must come out the same on every machine.
set(TALLY_NVCC_PTX_FLAGS -ptx -arch=compute_80 -O3)

function(tally_kernels name source)
  cmake_parse_arguments(arg "" "VARIANTS" "HEADERS" ${ARGN})
  if(NOT arg_VARIANTS)
    set(arg_VARIANTS all)
  endif()
  cmake_path(ABSOLUTE_PATH source NORMALIZE)
  cmake_path(REPLACE_EXTENSION source LAST_ONLY .ptx OUTPUT_VARIABLE checkedIn)
  set(bundle "${CMAKE_CURRENT_BINARY_DIR}/${name}.tally")

  if(TALLY_PREBUILT_BUNDLES)
    set(${name}_BUNDLE "${TALLY_PREBUILT_BUNDLES}/${name}.tally" PARENT_SCOPE)
    add_custom_target(${name})
    return()
  endif()
  if(NOT TALLY_HAVE_LLVM)
    set(${name}_BUNDLE "" PARENT_SCOPE)
    return()
  endif()

  set(ptx "${checkedIn}")
  if(TALLY_NVCC)
    set(ptx "${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx")
    cmake_path(GET source PARENT_PATH directory)
    cmake_path(GET source FILENAME file)
    list(TRANSFORM arg_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE headers)
    add_custom_command(OUTPUT "${ptx}"
      COMMAND "${TALLY_NVCC}" ${TALLY_NVCC_PTX_FLAGS} "${file}" -o "${ptx}"
      WORKING_DIRECTORY "${directory}"
      DEPENDS "${source}" ${headers}
      COMMENT "Compiling ${file} to PTX" VERBATIM)
    if(BUILD_TESTING)
      add_test(NAME ${name}_ptx_is_current COMMAND "${CMAKE_COMMAND}"
        "-DCHECKED_IN=${checkedIn}" "-DGENERATED=${ptx}"
        -P "${PROJECT_SOURCE_DIR}/cmake/ComparePtx.cmake")
      set_tests_properties(${name}_ptx_is_current PROPERTIES SKIP_REGULAR_EXPRESSION "^-- skipped:")
    endif()
  endif()

  set(architectures --no-assemble)
  if(TALLY_PTXAS)
    set(architectures --arch=sm_90,sm_80) # the first decides on codings
  endif()
  add_custom_command(OUTPUT "${bundle}"
    COMMAND tally-ptxopt "${ptx}" "--variants=${arg_VARIANTS}" --emit=bundle ${architectures}
      "--report-file=${CMAKE_CURRENT_BINARY_DIR}/${name}.json" --report=json -o "${bundle}"
    DEPENDS tally-ptxopt "${ptx}"
    COMMENT "Rewriting the kernels of ${name}" VERBATIM)
  add_custom_target(${name} ALL DEPENDS "${bundle}")
  set(${name}_BUNDLE "${bundle}" PARENT_SCOPE)
endfunction()
