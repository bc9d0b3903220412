# embedded.py FILE.SUFFIX...: writes SUFFIX.c, which contains the file as data, in the form of bin2c.
import pathlib
import sys

for name in sys.argv[1:]:
    path = pathlib.Path(name)
    numbers = ",".join(str(byte) for byte in path.read_bytes())
    suffix = path.suffix[1:]
    pathlib.Path(suffix + ".c").write_text(f"const unsigned char {suffix}[] = {{{numbers}}};\n")
