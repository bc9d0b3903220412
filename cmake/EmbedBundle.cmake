# cmake [-D INPUT=FILE] -D OUTPUT=FILE.cpp -P EmbedBundle.cmake: writes the bytes of INPUT in the
# form that lib/hooks/work/own_bundle.h declares; without INPUT it writes no bytes. The two digits
# of each byte are swapped.
set(rows "")
set(bytes "{}")
if(INPUT)
  file(READ "${INPUT}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" rows "${hex}")
  string(REGEX REPLACE "([0-9a-f])([0-9a-f])" "0x\\2\\1," rows "${rows}")
  set(rows "static const unsigned char bytes[] = {\n${rows}};\n")
  set(bytes "bytes")
endif()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedBundle.cmake.
#include \"work/own_bundle.h\"

${rows}
std::span<const unsigned char> tally::hooks::swappedOwnBundle() { return ${bytes}; }
")
