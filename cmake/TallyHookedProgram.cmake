# tally_rewritten_object(OBJECT SOURCE [nvcc option...]): CUDA C++ that does not know of tally, compiled by nvcc
# into OBJECT, which is rewritten. TALLY_HOOKED_DEPENDS: what it includes.
function(tally_rewritten_object object source)
  add_custom_command(OUTPUT "${object}"
    DEPENDS "${source}" ${TALLY_HOOKED_DEPENDS} tally-ptxopt
    COMMAND "${TALLY_NVCC}" -std=c++17 -O2 -gencode arch=compute_90,code=[compute_90,sm_90]
      ${ARGN} -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
    COMMAND tally-ptxopt --in-place "${object}"
    COMMENT "Compiling ${source} with variants")
endfunction()

# tally_hooked_program(NAME SOURCE [nvcc option...]): a program of CUDA C++ that does not know of tally,
# compiled by nvcc, its object rewritten, linked with the hooks: NAME; and NAME_plain without tally.
function(tally_hooked_program name source)
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
  tally_rewritten_object("${object}" "${source}" ${ARGN})
  add_custom_command(OUTPUT "${object}.plain.o"
    DEPENDS "${source}" ${TALLY_HOOKED_DEPENDS}
    COMMAND "${TALLY_NVCC}" -std=c++17 -O2 -gencode arch=compute_90,code=[compute_90,sm_90]
      ${ARGN} -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}.plain.o"
    COMMENT "Compiling ${name}")
  add_executable(${name} "${object}")
  add_executable(${name}_plain "${object}.plain.o")
  foreach(target ${name} ${name}_plain)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endforeach()
  target_link_libraries(${name} PRIVATE tally_hooks CUDA::cudart_static)
  target_link_options(${name} PRIVATE "@${PROJECT_BINARY_DIR}/tally-link-options")
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${PROJECT_BINARY_DIR}/tally-link-options")
  target_link_libraries(${name}_plain PRIVATE CUDA::cudart_static)
endfunction()

# tally_hooked_programs(NAME SOURCE...): the same of several sources, each compiled once: NAME,
# NAME_plain, and NAME_scheduled, which is linked with the hooks and whose objects are not rewritten.
function(tally_hooked_programs name)
  set(plain "")
  set(rewritten "")
  foreach(source IN LISTS ARGN)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}_${source}")
    add_custom_command(OUTPUT "${object}.plain.o"
      DEPENDS "${source}" ${TALLY_HOOKED_DEPENDS}
      COMMAND "${TALLY_NVCC}" -std=c++17 -O2 -gencode arch=compute_90,code=[compute_90,sm_90]
        -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}.plain.o"
      COMMENT "Compiling ${source} of ${name}")
    add_custom_command(OUTPUT "${object}.o"
      DEPENDS "${object}.plain.o" tally-ptxopt
      COMMAND "${CMAKE_COMMAND}" -E copy "${object}.plain.o" "${object}.o"
      COMMAND tally-ptxopt --in-place "${object}.o"
      COMMENT "Rewriting ${source} of ${name}")
    list(APPEND plain "${object}.plain.o")
    list(APPEND rewritten "${object}.o")
  endforeach()
  add_executable(${name} ${rewritten})
  add_executable(${name}_plain ${plain})
  add_executable(${name}_scheduled ${plain})
  set_target_properties(${name} ${name}_plain ${name}_scheduled PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name}_plain PRIVATE CUDA::cudart_static)
  foreach(target ${name} ${name}_scheduled)
    target_link_libraries(${target} PRIVATE tally_hooks CUDA::cudart_static)
    target_link_options(${target} PRIVATE "@${PROJECT_BINARY_DIR}/tally-link-options")
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${PROJECT_BINARY_DIR}/tally-link-options")
  endforeach()
endfunction()
