# Options for every target here: C++20, assertions kept in Release, warnings on.
option(TALLY_WARNINGS_AS_ERRORS "Treat the compilers' warnings as errors" OFF)
set(TALLY_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# A broken invariant must stop a run, never compute on: assertions stay in every build type.
foreach(config RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_${config} "${CMAKE_CXX_FLAGS_${config}}")
endforeach()

# Shared libraries link the runtime too, so its code is position-independent.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(TALLY_CCACHE ccache)
if(TALLY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TALLY_CCACHE}")
endif()

# CMAKE_CXX_STANDARD holds for the targets here alone. The feature cxx_std_20 would also change how
# a project that includes this one compiles its own sources.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)

add_library(tally_options INTERFACE)
# lib/include: headers that the libraries here share and that are not installed.
target_include_directories(tally_options INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/lib/include")
# -Wrestrict of g++ 12 warns of a constant in front of a std::string that is moved (GCC bug 105651).
target_compile_options(tally_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${TALLY_WARNINGS_AS_ERRORS}>:-Werror>)
if(TALLY_SANITIZE)
  target_compile_options(tally_options INTERFACE -fsanitize=${TALLY_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tally_options INTERFACE -fsanitize=${TALLY_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
