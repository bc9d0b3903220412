# The runtime never links LLVM: the library has no LLVM symbol, and a program needs no LLVM library.
#   cmake -DNM=nm -DREADELF=readelf -DLIBRARIES=a.a,b.a -DPROGRAM=p -P no_llvm_test.cmake
string(REPLACE "," ";" libraries "${LIBRARIES}")
foreach(library ${libraries})
  execute_process(COMMAND "${NM}" "${library}" OUTPUT_VARIABLE symbols ERROR_QUIET
    RESULT_VARIABLE status)
  string(LENGTH "${symbols}" length)
  if(NOT status EQUAL 0 OR length LESS 100)
    message(FATAL_ERROR "${NM} found no symbols in ${library}")
  endif()
  # "4llvm" as in a mangled _ZN4llvm..., and the names of LLVM's C interface.
  string(REGEX MATCH "[^\n]*(4llvm|LLVM|llvm_)[^\n]*" found "${symbols}")
  if(found)
    message(FATAL_ERROR "${library} names LLVM: ${found}")
  endif()
endforeach()
execute_process(COMMAND "${READELF}" -d "${PROGRAM}" OUTPUT_VARIABLE dynamic RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT dynamic MATCHES "NEEDED")
  message(FATAL_ERROR "${READELF} says nothing about ${PROGRAM}")
endif()
string(REGEX MATCH "[^\n]*LLVM[^\n]*" found "${dynamic}")
if(found)
  message(FATAL_ERROR "${PROGRAM} needs LLVM: ${found}")
endif()
