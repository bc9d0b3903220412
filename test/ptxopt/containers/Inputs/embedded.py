# embedded.py FILE.SUFFIX...: writes SUFFIX.c, in which the file is data, as bin2c writes it.
import pathlib
import sys

for name in sys.argv[1:]:
    path = pathlib.Path(name)
    numbers = ",".join(str(byte) for byte in path.read_bytes())
    suffix = path.suffix[1:]
    pathlib.Path(suffix + ".c").write_text(f"const unsigned char {suffix}[] = {{{numbers}}};\n")
