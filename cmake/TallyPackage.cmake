# Installs two components:
#
#   runtime  libtally_runtime.a with all that an application needs (hooks, runtime, emulator), headers,
#            the link options, the CMake package; tally and tally-top. No LLVM.
#   tools    tally-ptxopt, tally-sim and tally-verify, and their half of the CMake package.
#
# and a .deb of each by cpack.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TALLY_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/tally")

# One archive. tally_runtime.o is for programs that embed the runtime, and needs no CUDA runtime;
# tally_hooks.o is for relinked programs, and has the runtime as well; tally_driver.o has the state
# that the two must share. Their only global names are those of package/global_names.txt: a program
# may have names like ours, and its own zstd. A program needs no other library of ours, and the
# order on the link line does not matter.
set(decompressors "")
set(interfaceLibraries "")
foreach(library zstd lz4)
  string(TOUPPER ${library} upper)
  if(TALLY_${upper}_LIBRARY)
    find_library(TALLY_${upper}_ARCHIVE lib${library}.a)
    mark_as_advanced(TALLY_${upper}_ARCHIVE)
    if(TALLY_${upper}_ARCHIVE)
      list(APPEND decompressors "${TALLY_${upper}_ARCHIVE}")
    else()
      list(APPEND interfaceLibraries ${library})
    endif()
  endif()
endforeach()

# tally_packed_object(NAME LIBRARIES [DEPENDS FILE...] [BYPRODUCTS FILE...] [OPTIONS -D...]): makes
# package/NAME.o from the libraries' objects and the decompressors; the options are
# PackedNames.cmake's.
function(tally_packed_object name libraries)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "DEPENDS;BYPRODUCTS;OPTIONS")
  set(objects "")
  foreach(library IN LISTS libraries)
    if(TARGET ${library})
      # Into shared libraries too.
      set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON)
      list(APPEND objects "$<TARGET_OBJECTS:${library}>")
    endif()
  endforeach()
  set(packed "${CMAKE_CURRENT_BINARY_DIR}/package/${name}.o")
  set(script "${PROJECT_SOURCE_DIR}/cmake/PackedNames.cmake")
  add_custom_command(OUTPUT "${packed}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/package"
    COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib -Wl,--force-group-allocation -o "${packed}" ${objects} ${decompressors}
    COMMAND "${CMAKE_COMMAND}" -D "OBJECT=${packed}" -D "NM=${CMAKE_NM}" -D "OBJCOPY=${CMAKE_OBJCOPY}" ${arg_OPTIONS}
      -P "${script}"
    DEPENDS ${objects} ${decompressors} "${script}" "${PROJECT_SOURCE_DIR}/cmake/package/global_names.txt" ${arg_DEPENDS}
    BYPRODUCTS ${arg_BYPRODUCTS} COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking what applications get into one object: ${name}")
  set_source_files_properties("${packed}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
set(packed "${CMAKE_CURRENT_BINARY_DIR}/package")
set(runtimeParts tally_bundle tally_ptx tally_emulator tally_emulator_plain tally_emulator_haswell tally_runtime)
tally_packed_object(tally_driver tally_driver_exports)
tally_packed_object(tally_runtime "${runtimeParts}")
set(packedObjects "${packed}/tally_driver.o" "${packed}/tally_runtime.o")
if(TARGET tally_hooks)
  tally_packed_object(tally_hooks "${runtimeParts};tally_hooks_logic;tally_hooks;tally_emulated_cuda"
    DEPENDS "${packed}/tally_runtime.o" "${PROJECT_BINARY_DIR}/tally-link-options" "${PROJECT_BINARY_DIR}/tally-link-options.nvcc"
    BYPRODUCTS "${packed}/tally-link-options" "${packed}/tally-link-options.nvcc"
    OPTIONS -D "INTERFACE_OF=${packed}/tally_runtime.o" -D "LINK_OPTIONS=${PROJECT_BINARY_DIR}/tally-link-options"
      -D "PACKED_LINK_OPTIONS=${packed}/tally-link-options")
  list(APPEND packedObjects "${packed}/tally_hooks.o")
endif()
add_library(tally_runtime_archive STATIC ${packedObjects})
set_target_properties(tally_runtime_archive PROPERTIES
  LINKER_LANGUAGE CXX
  OUTPUT_NAME tally_runtime
  ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/package"
  EXPORT_NAME runtime)
target_link_libraries(tally_runtime_archive INTERFACE Threads::Threads ${CMAKE_DL_LIBS}
  ${interfaceLibraries})

install(TARGETS tally_runtime_archive EXPORT tallyRuntime COMPONENT runtime
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT tallyRuntime NAMESPACE tally:: DESTINATION "${TALLY_PACKAGE_DIR}" COMPONENT runtime)
install(DIRECTORY include/tally DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT runtime)
if(TARGET tally_hooks)
  install(FILES "${packed}/tally-link-options" "${packed}/tally-link-options.nvcc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/tally" COMPONENT runtime)
endif()
configure_package_config_file(cmake/package/tallyConfig.cmake.in
  "${CMAKE_CURRENT_BINARY_DIR}/package/tallyConfig.cmake"
  INSTALL_DESTINATION "${TALLY_PACKAGE_DIR}" PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/package/tallyConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/tallyConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/package/tallyConfigVersion.cmake" cmake/package/TallyEnable.cmake
  DESTINATION "${TALLY_PACKAGE_DIR}" COMPONENT runtime)
install(TARGETS tally-top tally_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
# The library that `tally run` preloads, and the program that makes variants of kernels that are
# compiled at run time.
if(TARGET tally_preload)
  install(TARGETS tally_preload LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tally" COMPONENT runtime)
endif()
if(TALLY_HAVE_LLVM)
  install(TARGETS tally_ptxas tally_make_variants RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}/tally" COMPONENT tools)
  install(FILES "${packed}/ptxas-blackwell" DESTINATION "${CMAKE_INSTALL_LIBDIR}/tally" COMPONENT tools)
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)

if(TALLY_HAVE_LLVM)
  if(NOT LLVM_LIBRARY_DIR MATCHES "^/usr/lib")
    # A library in a directory of the distribution is found without a path.
    set_target_properties(tally-ptxopt tally-sim tally-verify PROPERTIES INSTALL_RPATH "${LLVM_LIBRARY_DIR}")
  endif()
  install(TARGETS tally-ptxopt tally-sim tally-verify EXPORT tallyTools COMPONENT tools
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(EXPORT tallyTools NAMESPACE tally:: DESTINATION "${TALLY_PACKAGE_DIR}" COMPONENT tools)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tally)
set(CPACK_PACKAGE_VENDOR "Tally")
set(CPACK_PACKAGE_CONTACT "the maintainers of Tally <maintainers@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME "tally-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_COMPONENTS_ALL runtime)
if(TALLY_HAVE_LLVM)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF) # of the archive nothing may go; the tools are linked with -s where released
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tally-runtime)
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME tally-tools)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "tally-runtime (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "What a program that opts in is linked with; needs no LLVM")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "The rewriter of kernels and its checker; needs LLVM")
include(CPack)
