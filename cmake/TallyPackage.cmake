# What is installed, in two components:
#
#   runtime  libtally_runtime.a with all that an application needs (hooks, runtime, emulator), headers,
#            the link options, the CMake package; tally-top. No LLVM.
#   tools    tally-ptxopt and tally-verify, and their half of the CMake package.
#
# and a .deb of each by cpack.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TALLY_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/tally")

# One archive of two objects: the runtime, and what relinked programs need of it, which refers to the CUDA
# runtime. A program needs no other library of ours, their order on the link line matters to nobody, and
# who embeds the runtime alone is not asked for a CUDA runtime. The decompressors come in with their names
# made local, so that a program may link its own.
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

# tally_packed_object(NAME LIBRARIES ARCHIVES): package/NAME.o of the libraries' objects and the archives.
function(tally_packed_object name libraries archives)
  set(objects "")
  foreach(library IN LISTS libraries)
    if(TARGET ${library})
      # Into shared libraries too.
      set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON)
      list(APPEND objects "$<TARGET_OBJECTS:${library}>")
    endif()
  endforeach()
  set(packed "${CMAKE_CURRENT_BINARY_DIR}/package/${name}.o")
  add_custom_command(OUTPUT "${packed}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/package"
    COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib -o "${packed}" ${objects} ${archives}
    COMMAND "${CMAKE_OBJCOPY}" --wildcard --localize-symbol=ZSTD* --localize-symbol=FSE_*
      --localize-symbol=HUF_* --localize-symbol=FSEv* --localize-symbol=HUFv* --localize-symbol=ZBUFF*
      --localize-symbol=HIST_* --localize-symbol=ERR_*
      --localize-symbol=POOL_* --localize-symbol=COVER_* --localize-symbol=ZDICT* --localize-symbol=XXH*
      --localize-symbol=LZ4* --localize-symbol=divsufsort* --localize-symbol=divbwt*
      "${packed}"
    DEPENDS ${objects} ${archives} COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking what applications get into one object: ${name}")
  set_source_files_properties("${packed}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
tally_packed_object(tally_runtime
  "tally_bundle;tally_ptx;tally_emulator;tally_emulator_plain;tally_emulator_haswell;tally_runtime" "${decompressors}")
set(packedObjects "${CMAKE_CURRENT_BINARY_DIR}/package/tally_runtime.o")
if(TARGET tally_hooks)
  tally_packed_object(tally_hooks "tally_hooks_logic;tally_hooks;tally_emulated_cuda" "")
  list(APPEND packedObjects "${CMAKE_CURRENT_BINARY_DIR}/package/tally_hooks.o")
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
  install(FILES "${PROJECT_BINARY_DIR}/tally-link-options" "${PROJECT_BINARY_DIR}/tally-link-options.nvcc"
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
install(TARGETS tally-top RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)

if(TALLY_HAVE_LLVM)
  if(NOT LLVM_LIBRARY_DIR MATCHES "^/usr/lib")
    # Where a distribution puts it, it is found without.
    set_target_properties(tally-ptxopt tally-verify PROPERTIES INSTALL_RPATH "${LLVM_LIBRARY_DIR}")
  endif()
  install(TARGETS tally-ptxopt tally-verify EXPORT tallyTools COMPONENT tools
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
