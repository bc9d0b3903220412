"""other_version.py older|newer IN OUT: writes a C header of Tally's as another version might have it.

In the older version the structures that begin with their size lack their last fields; in the newer version they have
more fields.
"""

import re
import sys

# The first field that the older version lacks. In that version tally_options ends with a uint32_t and padding, which
# holds the newer version's next field.
LACKS = {
    "tally_client_progress": "generation",
    "tally_policy_snapshot": "clients",
    "tally_policy_decision": "clients",
    "tally_policy": "uses_clients",
    "tally_options": "best_effort_class",
    "tally_device_info": "driver",
    "tally_launch_shape": "cluster",
    "tally_statistics": "saved_blocks",
    "tally_client_report": "memory_used",
}
MADE_UP = [" uint64_t made_up_number", " const char *made_up_text"]


def other(version, match):
    name, body = match.groups()
    fields = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL).split(";")[:-1]
    if fields[0].split() != ["size_t", "size"]:
        return match.group(0)
    if version == "newer":
        fields += MADE_UP
    else:
        names = [re.search(r"(\w+)(\[\d+\])?\s*$|\(\*(\w+)\)", field) for field in fields]
        names = [found.group(3) or found.group(1) for found in names]
        fields = fields[: names.index(LACKS[name])]
    return "typedef struct %s {%s;\n} %s;" % (name, ";".join(fields), name)


version, source, target = sys.argv[1:]
with open(source) as file:
    text = file.read()
text, count = re.subn(
    r"typedef struct (\w+) \{(.*?)\n\} \1;", lambda match: other(version, match), text, flags=re.DOTALL
)
assert version in ("older", "newer") and count > 0
with open(target, "w") as file:
    file.write(text)
