"""Parses nvdisasm -c's listing of a cubin: sections, functions, instructions and the registers that these read and
write."""
import re

LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P(?:\d+|T))\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*?)\s*;")
REGISTER = re.compile(r"\b(UR|UP|R|P)(\d+)\b((?:\.\w+)*)")
BARRIER_REGISTER = re.compile(r"\bB(\d+)\b")

# These instructions write no register: they read their first operand.
STORES = ("ST", "STG", "STS", "STL", "STAS", "RED", "REDG", "REDAS", "BAR", "BRA", "BRX", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC",
          "ENDCOLLECTIVE", "CALL", "RET", "YIELD", "NOP", "NANOSLEEP", "MEMBAR", "FENCE", "ERRBAR", "CGAERRBAR", "CCTL", "DEPBAR",
          "LDGDEPBAR", "LDGSTS", "BPT", "ARRIVES", "UBLKCP", "UTMACMDFLUSH", "UTMALDG", "UTMASTG", "UCGABAR_ARV", "UCGABAR_WAIT",
          "WARPGROUP", "USETMAXREG", "PREEXIT", "ACQBULK", "SUST", "KILL")
# The predicates at the beginning are results; the instruction reads the numbers behind them.
COMPARISONS = ("ISETP", "FSETP", "DSETP", "HSETP2", "UISETP", "FCHK", "SYNCS")
# The largest number of registers that each instruction writes, from its first result on.
LONG_RESULTS = {"HMMA": 4, "IMMA": 4, "BMMA": 4, "DMMA": 8, "HGMMA": 128, "IGMMA": 128, "QGMMA": 128, "TEX": 4, "TLD": 4,
                "TLD4": 4, "TXD": 4, "TXQ": 4, "TMML": 4, "SULD": 4}


class Instruction:
    def __init__(self, address, guard, opcode, operands):
        self.address, self.guard = address, guard
        self.opcode, *self.modifiers = opcode.split(".")
        self.text = f"{opcode} {operands}".strip()
        self.targets = re.findall(r"`\(([^)]+)\)", operands)
        table = re.search(r"BRANCH_TARGETS ([^\"]*)", operands)
        if table:
            self.targets = [each.strip() for each in table[1].split(",")]
        plain = re.sub(r"\(\*.*?\*\)|`\([^)]*\)", "", operands)
        self.operands = [each.strip() for each in plain.split(",")] if plain.strip() else []
        found = BARRIER_REGISTER.search(plain)
        self.barrier = int(found[1]) if found else None  # of BSSY, BSYNC, BREAK, BMOV
        self.results, self.weak_results = self._results()
        self.reads = self._reads()

    @property
    def always(self):
        """Whether the instruction is executed for all values of predicates."""
        return self.guard in (None, "PT", "UPT") and not (self.opcode in ("BRA", "EXIT", "BRX", "RET") and self.conditions)

    @property
    def conditions(self):
        """Predicates among the operands of a branch: the branch is taken if the guard and all of them hold."""
        return [found[0] + found[1] for each in self.operands for found in REGISTER.findall(each) if found[0] in ("P", "UP")]

    def _wide(self):
        return self.opcode[0] == "D" or any(each in ("WIDE", "64", "F64", "S64", "U64", "RCP64H", "RSQ64H", "128") for each in self.modifiers)

    def _results(self):
        """Registers that the instruction writes for sure, and registers that it may write."""
        if self.opcode in STORES or not self.operands:
            return [], []
        count = 1
        first = self.operands[0]
        after_predicate = re.fullmatch(r"U?P(\d+|T)", first)
        if self.opcode in ("VOTE", "VOTEU"):
            count = 1 if after_predicate else 2
        elif self.opcode in ("PLOP3", "UPLOP3"):
            count = 2
        else:
            while count < len(self.operands) and re.fullmatch(r"U?P(\d+|T)", self.operands[count]):
                count += 1
            if after_predicate and self.opcode not in COMPARISONS and count < len(self.operands) \
                    and re.fullmatch(r"U?R(\d+|Z)", self.operands[count]):
                count += 1
        strong, weak = [], []
        for operand in self.operands[:count]:
            if operand == "PR":
                weak += [f"P{each}" for each in range(7)]
            for kind, number, _ in REGISTER.findall(operand):
                strong.append(kind + number)
                if kind in ("R", "UR"):
                    more = [f"{kind}{int(number) + each}" for each in range(1, self._length())]
                    sure = self.opcode[0] == "L" and self.opcode != "LDSM" or "WIDE" in self.modifiers or self.opcode in ("CS2R", "ULDC")
                    (strong if sure else weak).extend(more)
        if self.opcode in ("TEX", "TLD", "TLD4", "TXD"):  # a second register holds the other half of the result
            for kind, number, _ in REGISTER.findall(self.operands[1]):
                weak += [f"{kind}{int(number) + each}" for each in range(4)]
        return strong, weak

    def _length(self):
        if self.opcode == "LDSM":
            return int(self.modifiers[-1]) if self.modifiers[-1] in ("2", "4") else 1
        if self.opcode == "HMMA" and self.modifiers[-1] == "F16":
            return 2
        if self.opcode in LONG_RESULTS:
            return LONG_RESULTS[self.opcode]
        if "128" in self.modifiers:
            return 4
        if self.opcode in ("SHF", "USHF", "MATCH"):
            return 1
        return 2 if self._wide() or self.opcode == "CS2R" and "32" not in self.modifiers else 1

    def _reads_pair(self, place):
        if "WIDE" in self.modifiers:
            return place == max(where for where, each in enumerate(self.operands) if not re.fullmatch(r"!?U?P(\d|T)", each))
        return self._wide() and self.opcode[0] != "L" and self.opcode not in ("SHF", "USHF", "MUFU")

    def _reads(self):
        """Registers whose values determine the instruction's effect: all operands but the plain results, and the
        guard."""
        read = []
        for place, operand in enumerate(self.operands):
            if operand == "PR":
                read += [f"P{each}" for each in range(7)]
            for kind, number, suffix in REGISTER.findall(operand):
                name = kind + number
                if place < 2 and operand == name and name in self.results and self.operands.index(operand) == place:
                    continue
                read.append(name)
                if kind in ("R", "UR") and (".64" in suffix or self._reads_pair(place)):
                    read.append(f"{kind}{int(number) + 1}")
        if self.guard and not self.guard.endswith("T"):
            read.append(self.guard.lstrip("!"))
        return list(dict.fromkeys(read))


class Section:
    """The contents of one .text section: an entry, or a function, and the functions that only it calls."""

    def __init__(self, name):
        self.name, self.entry = name, False
        self.instructions, self.labels, self.functions = [], {}, {}

    def finish(self):
        self.index = {each.address: place for place, each in enumerate(self.instructions)}
        return self


def sections(text):
    found, section, waiting = [], None, []
    for line in text.splitlines():
        head = re.match(r"\s*\.section\s+([^,\s]+)", line)
        if head:
            section = Section(head[1][len(".text."):]) if head[1].startswith(".text.") else None
            if section:
                found.append(section)
            continue
        if section is None:
            continue
        if "STO_CUDA_ENTRY" in line:
            section.entry = True
        label = re.match(r"([^\s:/]+):\s*$", line)
        if label and not label[1].startswith(".text."):
            waiting.append(label[1])
            continue
        typed = re.match(r"\s*\.type\s+([^,\s]+),@function", line)
        if typed:
            section.functions[typed[1]] = None
        match = LINE.match(line)
        if match:
            address = int(match[1], 16)
            for each in waiting:
                section.labels[each] = address
            waiting = []
            section.instructions.append(Instruction(address, *match.groups()[1:]))
    return [each.finish() for each in found]
