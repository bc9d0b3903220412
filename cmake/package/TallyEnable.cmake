# tally_enable(TARGET... [VARIANTS KIND...] [ARCHS ARCH...] [KERNELS REGEX] [PROFILES FILE...])
#
# Lets the kernels of the targets yield to other work: tally-ptxopt rewrites in place every object
# that the CUDA compiler makes for them, and the programs and libraries of the targets are linked
# with tally::runtime. Call it for executables and shared libraries, and for the static and object
# libraries that hold their kernels, in any order, after add_executable() and add_library().
#
#   VARIANTS  kinds to write: slice, guard, persistent, pause, checkpoint, or all (default: the kinds that
#             run without settings, see --variants of tally-ptxopt)
#   ARCHS     architectures to assemble for besides those of the compiler's options, e.g. sm_100
#   KERNELS   an extended regular expression; only kernels whose whole mangled name matches
#   PROFILES  files written by runs of the program with TALLY_PROFILE=on (--profile of tally-ptxopt): kernels
#             that they name get only the kinds that their launches want. When a file changes, the build
#             rewrites the targets' sources anew.
#
# A program without CUDA that links or loads a library with kernels is enabled in the same way: the hooks
# are linked into it, with the CUDA runtime that they need (CUDA_RUNTIME_LIBRARY says which; None: the
# project links one).
#
# A compiler launcher (ccache, say) that is set is kept: it runs inside tally-ptxopt's, so that it sees the
# compiler's own command. So does one that RULE_LAUNCH_COMPILE names at the time of the call.
function(tally_enable)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "KERNELS" "VARIANTS;ARCHS;PROFILES")
  if(NOT arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tally_enable: no target was named")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "tally_enable: no value after ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT EXISTS "${TALLY_LINK_OPTIONS}")
    message(FATAL_ERROR "tally_enable: this Tally has no hooks for the CUDA runtime, since it was built "
      "without a CUDA Toolkit")
  endif()
  if(NOT TARGET tally::tally-ptxopt)
    message(FATAL_ERROR "tally_enable: only Tally's runtime is installed in "
      "${CMAKE_CURRENT_FUNCTION_LIST_DIR}; rewriting kernels takes tally-ptxopt, which is in Tally's "
      "tools (Debian package tally-tools). Objects that were rewritten elsewhere need no more than "
      "target_link_libraries(<target> PRIVATE tally::runtime).")
  endif()

  get_target_property(tool tally::tally-ptxopt LOCATION)
  set(launcher "${tool}" --compile)
  if(arg_VARIANTS)
    list(JOIN arg_VARIANTS "," kinds)
    list(APPEND launcher "--variants=${kinds}")
  endif()
  if(arg_ARCHS)
    list(JOIN arg_ARCHS "," archs)
    list(APPEND launcher "--arch=${archs}")
  endif()
  if(DEFINED arg_KERNELS)
    if(arg_KERNELS MATCHES ";")
      message(FATAL_ERROR "tally_enable: KERNELS must not hold a semicolon")
    endif()
    list(APPEND launcher "--kernel=${arg_KERNELS}")
  endif()
  set(profiles "")
  foreach(profile IN LISTS arg_PROFILES)
    get_filename_component(profile "${profile}" ABSOLUTE)
    if(NOT EXISTS "${profile}" OR IS_DIRECTORY "${profile}")
      message(FATAL_ERROR "tally_enable: PROFILES: there is no file ${profile}")
    endif()
    list(APPEND profiles "${profile}")
    list(APPEND launcher "--profile=${profile}")
  endforeach()
  if(CMAKE_CUDA_COMPILER_TOOLKIT_ROOT)
    list(APPEND launcher "--cuda-path=${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}")
  endif()
  list(APPEND launcher --)

  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    tally_enable_target_("${target}" "${launcher}" "${profiles}")
  endforeach()
endfunction()

function(tally_enable_target_ target launcher profiles)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "tally_enable: there is no target '${target}' (yet)")
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(imported ${target} IMPORTED)
  if(imported OR NOT type MATCHES "^(EXECUTABLE|(SHARED|STATIC|MODULE|OBJECT)_LIBRARY)$")
    message(FATAL_ERROR "tally_enable: '${target}' compiles nothing here; name the targets that do")
  endif()
  get_target_property(before ${target} CUDA_COMPILER_LAUNCHER)
  if(NOT before)
    set(before "")
  endif()
  if(before MATCHES "tally-ptxopt")
    message(FATAL_ERROR "tally_enable: '${target}' is enabled twice")
  endif()
  tally_take_rule_launcher_(${target} outer)
  set_property(TARGET ${target} PROPERTY CUDA_COMPILER_LAUNCHER ${launcher} ${outer} ${before})
  # A static library passes this on to the target that links it.
  target_link_libraries(${target} PRIVATE tally::runtime)

  get_target_property(sources ${target} SOURCES)
  get_target_property(directory ${target} SOURCE_DIR)
  if(NOT sources)
    set(sources "")
  endif()
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  if(NOT sources AND type MATCHES "^(EXECUTABLE|(SHARED|MODULE)_LIBRARY)$")
    tally_link_cuda_runtime_(${target})
  endif()
  # A new tally-ptxopt or a new profile rewrites the objects anew.
  foreach(source IN LISTS sources)
    set_property(SOURCE ${source} DIRECTORY "${directory}" APPEND PROPERTY OBJECT_DEPENDS "${tool}" ${profiles})
  endforeach()
endfunction()

# CMake links the CUDA runtime into targets that have CUDA sources.
function(tally_link_cuda_runtime_ target)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  get_target_property(which ${target} CUDA_RUNTIME_LIBRARY)
  if(NOT which)
    set(which "${CMAKE_CUDA_RUNTIME_LIBRARY}")
  endif()
  if(libraries MATCHES "cudart" OR which STREQUAL "None")
    return()
  endif()
  # The policy is set in this function alone: CMake 3.25.1 ends with an error where CUDA 13 has no
  # nvToolsExt, if a project asks for 3.25.
  if(CMAKE_VERSION VERSION_LESS 3.26)
    set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  endif()
  find_package(CUDAToolkit QUIET)
  set(runtime CUDA::cudart_static)
  if(which STREQUAL "Shared")
    set(runtime CUDA::cudart)
  endif()
  if(NOT TARGET ${runtime})
    message(FATAL_ERROR "tally_enable: '${target}' has no CUDA sources, so that the hooks need a CUDA runtime to be linked "
      "with them, and find_package(CUDAToolkit) finds no ${runtime}; say -DCUDAToolkit_ROOT=<the toolkit>")
  endif()
  target_link_libraries(${target} PRIVATE ${runtime})
endfunction()

# tally_take_rule_launcher_(TARGET OUT): RULE_LAUNCH_COMPILE stands in front of all launchers, where
# ccache would take tally-ptxopt for an unknown compiler and cache nothing. The function makes it a
# launcher of the target; the caller sets the CUDA launcher.
function(tally_take_rule_launcher_ target out)
  set(${out} "" PARENT_SCOPE)
  # The property of the target, else of its directory, else of the project.
  get_target_property(rule ${target} RULE_LAUNCH_COMPILE)
  if(NOT rule)
    get_target_property(directory ${target} SOURCE_DIR)
    get_property(rule DIRECTORY "${directory}" PROPERTY RULE_LAUNCH_COMPILE)
  endif()
  if(NOT rule)
    get_property(rule GLOBAL PROPERTY RULE_LAUNCH_COMPILE)
  endif()
  # Placeholders such as <OBJECT> have a meaning only in RULE_LAUNCH_COMPILE.
  if(NOT rule OR rule MATCHES "<[A-Z_]+>")
    return()
  endif()
  separate_arguments(words UNIX_COMMAND "${rule}")
  set_property(TARGET ${target} PROPERTY RULE_LAUNCH_COMPILE "")
  foreach(language C CXX)
    get_target_property(before ${target} ${language}_COMPILER_LAUNCHER)
    if(NOT before)
      set(before "")
    endif()
    set_property(TARGET ${target} PROPERTY ${language}_COMPILER_LAUNCHER ${words} ${before})
  endforeach()
  set(${out} ${words} PARENT_SCOPE)
endfunction()
