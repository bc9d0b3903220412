# archive.py OUTPUT FILE...: writes an archive without a table of symbols; the machine may have no ar.
import pathlib
import sys

with open(sys.argv[1], "wb") as archive:
    archive.write(b"!<arch>\n")
    for name in sys.argv[2:]:
        contents = pathlib.Path(name).read_bytes()
        header = f"{pathlib.Path(name).name + '/':<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(contents):<10}`\n"
        archive.write(header.encode() + contents + b"\n" * (len(contents) % 2))
