"""patch.py IN OUT PLACE OFFSET HEX: IN with bytes at OFFSET of PLACE: a section, "SECTION:header" for
its entry in the section table, or "header" for the file's."""
import struct
import sys


def place_of(data, wanted):
    table, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
    for i, (name, _, _, _, offset, _) in enumerate(headers):
        start = headers[names][4] + name
        if data[start:data.index(b"\0", start)] == wanted.split(":")[0].encode():
            return table + 64 * i if wanted.endswith(":header") else offset
    sys.exit(f"no section {wanted}")


data = bytearray(open(sys.argv[1], "rb").read())
at = int(sys.argv[4]) + (0 if sys.argv[3] == "header" else place_of(data, sys.argv[3]))
new = bytes.fromhex(sys.argv[5])
data[at:at + len(new)] = new
open(sys.argv[2], "wb").write(data)
