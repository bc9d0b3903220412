# tally_hooked_program(NAME SOURCE [nvcc option...]): a program of CUDA C++ that does not know of tally,
# compiled by nvcc, its object rewritten, linked with the hooks: NAME; and NAME_plain without tally.
# TALLY_HOOKED_DEPENDS: what it includes.
function(tally_hooked_program name source)
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
  set(compile "${TALLY_NVCC}" -std=c++17 -O2 -gencode arch=compute_90,code=[compute_90,sm_90]
    ${ARGN} -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
  add_custom_command(OUTPUT "${object}"
    DEPENDS "${source}" ${TALLY_HOOKED_DEPENDS} tally-ptxopt
    COMMAND ${compile} -o "${object}"
    COMMAND tally-ptxopt --in-place "${object}"
    COMMENT "Compiling ${name} with variants")
  add_custom_command(OUTPUT "${object}.plain.o"
    DEPENDS "${source}" ${TALLY_HOOKED_DEPENDS}
    COMMAND ${compile} -o "${object}.plain.o"
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
