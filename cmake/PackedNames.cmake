# cmake -D OBJECT=FILE … -P PackedNames.cmake: makes all names of the object local, except the names
# in package/global_names.txt. Its COMDAT groups must be gone (--force-group-allocation): a linker that took
# another object's copy of a group would leave references to local names of the group without a
# target.
#
# With INTERFACE_OF=OBJECT, LINK_OPTIONS=FILE and PACKED_LINK_OPTIONS=FILE: the names of the C interface that the
# other object defines get the prefix __wrap_ here, and the options of LINK_OPTIONS are written
# together with the options that redirect calls to the prefixed names. So a program linked by these
# options takes this object and never the other one.
cmake_minimum_required(VERSION 3.25)

# defined_names(OBJECT OUT): lists each name as `name type`; the type `u` is STB_GNU_UNIQUE.
function(defined_names object out)
  execute_process(COMMAND "${NM}" -g --defined-only --format=posix "${object}"
    OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \n]+ [A-Za-z][^\n]*" lines "${listed}")
  list(TRANSFORM lines REPLACE "^([^ ]+ [A-Za-z]).*" "\\1")
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/package/global_names.txt" allowed REGEX "^[a-z]")
list(TRANSFORM allowed REPLACE "^[a-z]+ " "")
list(JOIN allowed "|" allowed)

defined_names("${OBJECT}" names)
list(FILTER names EXCLUDE REGEX "^(${allowed}) ")
set(unique "${names}")
list(FILTER unique INCLUDE REGEX " u$")
foreach(list names unique)
  list(TRANSFORM ${list} REPLACE " .$" "")
  list(JOIN ${list} "\n" text)
  file(WRITE "${OBJECT}.${list}" "${text}\n")
endforeach()
# objcopy leaves unique names global, up to binutils 2.40 at least; it makes weak names local.
execute_process(COMMAND "${OBJCOPY}" "--weaken-symbols=${OBJECT}.unique" "${OBJECT}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${OBJCOPY}" "--localize-symbols=${OBJECT}.names" "${OBJECT}" COMMAND_ERROR_IS_FATAL ANY)

if(INTERFACE_OF)
  defined_names("${INTERFACE_OF}" interface)
  list(FILTER interface INCLUDE REGEX "^tally_")
  list(TRANSFORM interface REPLACE " .$" "")
  set(renamed "")
  file(READ "${LINK_OPTIONS}" options)
  file(READ "${LINK_OPTIONS}.nvcc" nvccOptions)
  foreach(name IN LISTS interface)
    string(APPEND renamed "${name} __wrap_${name}\n")
    string(APPEND options "-Wl,--wrap=${name}\n")
    string(APPEND nvccOptions "-Xlinker --wrap=${name}\n")
  endforeach()
  file(WRITE "${OBJECT}.renamed" "${renamed}")
  execute_process(COMMAND "${OBJCOPY}" "--redefine-syms=${OBJECT}.renamed" "${OBJECT}" COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE "${PACKED_LINK_OPTIONS}" "${options}")
  file(WRITE "${PACKED_LINK_OPTIONS}.nvcc" "${nvccOptions}")
endif()
