# tally_write_link_options(DIRECTORY OUTPUT): from the rows of DIRECTORY/cuda_api*.def, the options
# that make a link use the hooks, one a line: OUTPUT for compiler drivers (`g++ … @OUTPUT`), and
# OUTPUT.nvcc for nvcc (`nvcc … --options-file OUTPUT.nvcc`).
function(tally_write_link_options directory output)
  set(text "")
  foreach(name cuda_api.def cuda_api_devices.def cuda_api_graphs.def)
    file(READ "${directory}/${name}" contents)
    string(APPEND text "${contents}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${directory}/${name}")
  endforeach()
  string(REGEX REPLACE "\n +" " " text "${text}")
  string(REGEX MATCHALL "\nTALLY_CUDA_CALL[^\n]*" rows "${text}")
  set(names "")
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^\nTALLY_CUDA_CALL\\([^,]*, ([A-Za-z0-9_]+), .*, (Plain|Ptsz|Ptds)\\)$")
      message(FATAL_ERROR "cuda_api.def: cannot read the row ${row}")
    endif()
    list(APPEND names "${CMAKE_MATCH_1}")
    if(CMAKE_MATCH_2 STREQUAL "Ptsz")
      list(APPEND names "${CMAKE_MATCH_1}_ptsz")
    elseif(CMAKE_MATCH_2 STREQUAL "Ptds")
      list(APPEND names "${CMAKE_MATCH_1}_ptds")
    endif()
  endforeach()
  # What the hooks of several modules meet by (hooks.h, real_api.cpp, thread_state.h,
  # driver_exports.h).
  set(driver "")
  set(nvcc "")
  foreach(name _ZN5tally5hooks17tallySharedHooks2E _ZN5tally5hooks20tallySharedEmulator2E
      _ZN5tally5hooks14thread_state_111threadStateE _ZN5tally7runtime18tallySharedDriver1E)
    string(APPEND driver "-Wl,--export-dynamic-symbol=${name}\n")
    string(APPEND nvcc "-Xlinker --export-dynamic-symbol=${name}\n")
  endforeach()
  # Also where nothing in the program calls the CUDA runtime, but a library that it loads does: the
  # archive's object is taken all the same, by a name that no shared library gives out.
  string(APPEND driver "-Wl,--undefined=__wrap___cudaRegisterFatBinary\n")
  string(APPEND nvcc "-Xlinker --undefined=__wrap___cudaRegisterFatBinary\n")
  foreach(name IN LISTS names)
    string(APPEND driver "-Wl,--wrap=${name}\n")
    string(APPEND nvcc "-Xlinker --wrap=${name}\n")
  endforeach()
  file(CONFIGURE OUTPUT "${output}" CONTENT "${driver}" @ONLY)
  file(CONFIGURE OUTPUT "${output}.nvcc" CONTENT "${nvcc}" @ONLY)
endfunction()
