# Compares nvcc's PTX with the checked-in one: the text must be the same, but for the comments that
# name the compiler's build. The test skips PTX of another release of nvcc.
function(read_ptx file text release)
  file(READ "${file}" content)
  string(REGEX MATCH "Cuda compilation tools, release [0-9.]+" found "${content}")
  # The build number differs between builds of one release.
  string(REGEX REPLACE "\n// (Compiler Build ID|Cuda compilation tools)[^\n]*" "" content "${content}")
  set(${text} "${content}" PARENT_SCOPE)
  set(${release} "${found}" PARENT_SCOPE)
endfunction()

read_ptx("${CHECKED_IN}" expected expectedRelease)
read_ptx("${GENERATED}" actual actualRelease)
if(NOT expectedRelease STREQUAL actualRelease)
  message(STATUS "skipped: ${CHECKED_IN} is by '${expectedRelease}', this nvcc is '${actualRelease}'")
elseif(NOT expected STREQUAL actual)
  message(FATAL_ERROR "${CHECKED_IN} is not what nvcc makes of its source; copy ${GENERATED} over it")
endif()
