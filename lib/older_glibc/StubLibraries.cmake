# Makes, for the linker, stubs of the C library as it was at version OLDEST: of each name the newest
# version up to that one, in the library that had it then. The names and versions are those of this
# machine's C library, which keeps all versions that it ever had.
#
#   cmake -D COMPILER=cc -D READELF=readelf -D PROCESSOR=x86_64 -D OLDEST=2.28 -D FOLDER=stubs -P StubLibraries.cmake
#
# Until 2.34 threads, semaphores and the loader's functions were in libraries of their own, which
# newer C libraries still bring, empty but for the names of the versions.
cmake_minimum_required(VERSION 3.25)

set(loader ld-linux-x86-64.so.2)
if(PROCESSOR MATCHES "aarch64|arm64")
  set(loader ld-linux-aarch64.so.1)
endif()
set(libraries libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 ${loader})

# placeOf(VARIABLE FILE): sets VARIABLE to the path at which the compiler finds FILE.
function(placeOf variable file)
  execute_process(COMMAND "${COMPILER}" "-print-file-name=${file}" OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT IS_ABSOLUTE "${path}")
    message(FATAL_ERROR "${COMPILER} finds no ${file}")
  endif()
  set(${variable} "${path}" PARENT_SCOPE)
endfunction()

# libraryOf(VARIABLE LIBRARY NAME): sets VARIABLE to the library that had NAME at version OLDEST,
# where LIBRARY has NAME only in a newer version; empty where that is unknown.
function(libraryOf variable library name)
  set(found ${library})
  if(library STREQUAL "libc.so.6" AND NOT name STREQUAL "__libc_start_main")
    set(found "")
    if(name MATCHES "^dl")
      set(found libdl.so.2)
    elseif(name MATCHES "^(__)?(pthread|sem|thrd|mtx|cnd|tss)_|^call_once$")
      set(found libpthread.so.0)
    endif()
  endif()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# Lines of readelf: number, value, size, type, binding, visibility, section, name@version or name@@version.
foreach(library IN LISTS libraries)
  placeOf(path ${library})
  execute_process(COMMAND "${READELF}" --dyn-syms -W "${path}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ +[0-9]+ +(FUNC|IFUNC|OBJECT) +(GLOBAL|WEAK) +DEFAULT +[0-9]+ +[^ \n]+@GLIBC_[0-9.]+" lines "${text}")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9a-f]+) +([0-9]+) +([A-Z]+) +([A-Z]+) .* ([^ @]+)@+GLIBC_([0-9.]+)$" line "${line}")
    set(name ${CMAKE_MATCH_5})
    set(version ${CMAKE_MATCH_6})
    if(NOT DEFINED newest_${name})
      list(APPEND names ${name})
      set(newest_${name} 0)
      set(chosen_${name} 0)
    endif()
    if(version VERSION_GREATER newest_${name})
      set(newest_${name} ${version})
    endif()
    if(version VERSION_LESS_EQUAL OLDEST AND version VERSION_GREATER chosen_${name})
      set(chosen_${name} ${version})
      set(symbol_${name} ${CMAKE_MATCH_1} ${CMAKE_MATCH_2} ${CMAKE_MATCH_3} ${CMAKE_MATCH_4})
    endif()
  endforeach()
  foreach(name IN LISTS names)
    set(home ${library})
    if(newest_${name} VERSION_GREATER OLDEST)
      libraryOf(home ${library} ${name})
    endif()
    if(home AND NOT chosen_${name} EQUAL 0 AND NOT DEFINED taken_${home}_${name})
      set(taken_${home}_${name} 1)
      set(version ${chosen_${name}})
      list(APPEND versions_${home} ${version})
      string(APPEND names_${home}_${version} "    ${name};\n")
      list(GET symbol_${name} 0 value)
      list(GET symbol_${name} 1 size)
      list(GET symbol_${name} 2 type)
      list(GET symbol_${name} 3 binding)
      string(TOLOWER ".${binding}" binding)
      string(REPLACE ".global" ".globl" binding ${binding})
      if(type STREQUAL "OBJECT")
        # All names of one variable stay: a program with its own copy of the variable (a copy
        # relocation) has it under all names.
        list(APPEND variables_${home} ${value})
        string(APPEND labels_${home}_${value} "${binding} ${name}\n.type ${name},%object\n.size ${name},${size}\n${name}:\n")
        set(size_${home}_${value} ${size})
      else()
        string(APPEND functions_${home} "${binding} ${name}\n.type ${name},%function\n${name}:\n")
      endif()
    endif()
    unset(newest_${name})
    unset(chosen_${name})
    unset(symbol_${name})
  endforeach()
endforeach()

file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
set(stubs "")
foreach(library IN LISTS libraries)
  set(code ".text\n${functions_${library}}.bss\n")
  list(REMOVE_DUPLICATES variables_${library})
  foreach(value IN LISTS variables_${library})
    string(APPEND code ".balign 32\n${labels_${library}_${value}}.skip ${size_${library}_${value}}\n")
  endforeach()
  set(map "")
  list(REMOVE_DUPLICATES versions_${library})
  foreach(version IN LISTS versions_${library})
    string(APPEND map "GLIBC_${version} {\n  global:\n${names_${library}_${version}}};\n")
  endforeach()
  file(WRITE "${FOLDER}/${library}.s" "${code}.section .note.GNU-stack,\"\",%progbits\n")
  file(WRITE "${FOLDER}/${library}.map" "${map}")
  execute_process(COMMAND "${COMPILER}" -shared -nostdlib "-Wl,-soname,${library}" "-Wl,--version-script,${FOLDER}/${library}.map"
    -o "${FOLDER}/${library}" "${FOLDER}/${library}.s" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# The names under which the linker looks for the stub libraries. CMakeLists.txt waits for the last one.
foreach(library IN ITEMS libm.so libpthread.so libdl.so)
  file(GLOB stub RELATIVE "${FOLDER}" "${FOLDER}/${library}.[0-9]")
  file(CREATE_LINK "${stub}" "${FOLDER}/${library}" SYMBOLIC)
endforeach()
placeOf(nonshared libc_nonshared.a)
file(WRITE "${FOLDER}/libc.so" "GROUP ( \"${FOLDER}/libc.so.6\" \"${FOLDER}/libpthread.so.0\" \"${FOLDER}/libdl.so.2\" \
\"${nonshared}\" AS_NEEDED ( \"${FOLDER}/${loader}\" ) )\n")
