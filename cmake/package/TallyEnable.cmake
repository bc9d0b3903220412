# tally_enable(TARGET... [VARIANTS KIND...] [ARCHS ARCH...] [KERNELS REGEX])
#
# Lets the kernels of the targets make way for other work: every object that the CUDA compiler makes
# for them is rewritten in place by tally-ptxopt, and what they are linked into is linked with
# tally::runtime. Call it for executables and shared libraries, and for the static and object
# libraries that hold their kernels, in any order, after add_executable() and add_library().
#
#   VARIANTS  kinds to write: slice, guard, persistent (default: all)
#   ARCHS     architectures to assemble for besides those that the compiler was asked for, e.g. sm_100
#   KERNELS   an extended regular expression; only kernels whose whole mangled name matches
#
# A compiler launcher (ccache, say) that is set is kept: it runs inside tally-ptxopt's.
function(tally_enable)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "KERNELS" "VARIANTS;ARCHS")
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
  if(CMAKE_CUDA_COMPILER_TOOLKIT_ROOT)
    list(APPEND launcher "--cuda-path=${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}")
  endif()
  list(APPEND launcher --)

  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    tally_enable_target_("${target}" "${launcher}")
  endforeach()
endfunction()

function(tally_enable_target_ target launcher)
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
  set_property(TARGET ${target} PROPERTY CUDA_COMPILER_LAUNCHER ${launcher} ${before})
  # A static library hands this on to what it is linked into.
  target_link_libraries(${target} PRIVATE tally::runtime)

  # A new tally-ptxopt rewrites anew.
  get_target_property(sources ${target} SOURCES)
  get_target_property(directory ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  foreach(source IN LISTS sources)
    set_property(SOURCE ${source} DIRECTORY "${directory}" APPEND PROPERTY OBJECT_DEPENDS "${tool}")
  endforeach()
endfunction()
