set(TALLY_PROGRAM_VARIANTS all CACHE STRING "kinds of variants of the programs in benchmarks and tests, as tally-ptxopt's --variants takes them")

# tally_rewritten_object(OBJECT SOURCE [nvcc option...]): CUDA C++ that does not know of tally,
# compiled by nvcc, as OBJECT.plain.o; and the same object rewritten, as OBJECT.o.
# TALLY_HOOKED_DEPENDS: the files that the source includes; TALLY_REWRITE_OPTIONS: more options of
# tally-ptxopt.
function(tally_rewritten_object object source)
  add_custom_command(OUTPUT "${object}.plain.o"
    DEPENDS "${source}" ${TALLY_HOOKED_DEPENDS}
    COMMAND "${TALLY_NVCC}" -std=c++17 -O2 -gencode arch=compute_90,code=[compute_90,sm_90]
      ${ARGN} -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}.plain.o"
    COMMENT "Compiling ${source}")
  add_custom_command(OUTPUT "${object}.o"
    DEPENDS "${object}.plain.o" tally-ptxopt
    COMMAND "${CMAKE_COMMAND}" -E copy "${object}.plain.o" "${object}.o"
    COMMAND tally-ptxopt --in-place "--variants=${TALLY_PROGRAM_VARIANTS}" ${TALLY_REWRITE_OPTIONS} "${object}.o"
    COMMENT "Rewriting ${source}")
endfunction()

# tally_link_hooked(TARGET...): programs with the hooks.
function(tally_link_hooked)
  foreach(target IN LISTS ARGN)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS "${PROJECT_BINARY_DIR}/tally-link-options")
    target_link_libraries(${target} PRIVATE tally_hooks CUDA::cudart_static)
    target_link_options(${target} PRIVATE "@${PROJECT_BINARY_DIR}/tally-link-options")
  endforeach()
endfunction()

# tally_hooked_program(NAME SOURCE [nvcc option...]): two programs from such an object: NAME,
# rewritten and linked with the hooks; and NAME_plain, without Tally.
function(tally_hooked_program name source)
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  tally_rewritten_object("${object}" "${source}" ${ARGN})
  add_executable(${name} "${object}.o")
  add_executable(${name}_plain "${object}.plain.o")
  tally_link_hooked(${name})
  set_target_properties(${name}_plain PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name}_plain PRIVATE CUDA::cudart_static)
endfunction()

# tally_hooked_programs(NAME SOURCE...): programs from several sources: NAME, NAME_plain, and
# NAME_scheduled, which is linked with the hooks and whose objects are not rewritten.
function(tally_hooked_programs name)
  set(plain "")
  set(rewritten "")
  foreach(source IN LISTS ARGN)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}_${source}")
    tally_rewritten_object("${object}" "${source}")
    list(APPEND plain "${object}.plain.o")
    list(APPEND rewritten "${object}.o")
  endforeach()
  add_executable(${name} ${rewritten})
  add_executable(${name}_plain ${plain})
  add_executable(${name}_scheduled ${plain})
  tally_link_hooked(${name} ${name}_scheduled)
  set_target_properties(${name}_plain PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name}_plain PRIVATE CUDA::cudart_static)
endfunction()
