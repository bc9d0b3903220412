# archive.py OUTPUT FILE...: an archive without a table of symbols, where there may be no ar.
import pathlib
import sys

with open(sys.argv[1], "wb") as archive:
    archive.write(b"!<arch>\n")
    for name in sys.argv[2:]:
        contents = pathlib.Path(name).read_bytes()
        header = f"{pathlib.Path(name).name + '/':<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(contents):<10}`\n"
        archive.write(header.encode() + contents + b"\n" * (len(contents) % 2))
