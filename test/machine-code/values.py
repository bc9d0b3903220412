"""Finds the values of machine code that may differ between the lanes of a warp, by definitions, joins and loops."""
import re

# Special registers with one value for all lanes of a warp.
SAME_FOR_A_WARP = ("SR_CTAID", "SR_CgaCtaId", "SR_NTID", "SR_NCTAID", "SR_SWINHI", "SR_SMEMSZ", "SR_GRIDID", "SRZ", "SR_SMID", "SR_NSMID",
                   "SR_VIRTID", "SR_WARPID", "SR_CLUSTER", "SR_TOTALSMEMSZ")
LOADS = ("LD", "LDG", "LDS", "ULDG", "TEX", "TLD", "TLD4", "TXQ", "SULD")
# Results of several lanes' operands, atomics, local memory and waiting instructions: always treated as varying.
VARYING = ("LDL", "ATOM", "ATOMG", "ATOMS", "HMMA", "IMMA", "BMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA", "LDSM", "MOVM", "SYNCS", "ELECT",
           "SUATOM", "TMML")


def rule(instruction):
    """The rule for an instruction's result: 'same', 'varying', 'operands' (varies if an operand does), 'together'
    (varies if an operand does, or if the warp is not whole), 'whole' (the same if the warp is whole)."""
    opcode, text = instruction.opcode, instruction.text
    if opcode in ("S2R", "CS2R", "S2UR"):
        return "same" if opcode == "S2UR" or any(each in text for each in SAME_FOR_A_WARP) else "varying"
    if opcode in VARYING:
        return "varying"
    if opcode == "MATCH":
        return "whole" if "ALL" in instruction.modifiers else "varying"
    if opcode == "B2R":
        return "same" if "RESULT" in instruction.modifiers else "varying"
    if opcode in ("VOTE", "VOTEU", "REDUX", "R2UR", "UREDUX"):
        return "whole"
    if opcode == "ISETP" and instruction.modifiers == ["LT", "U32", "AND"] and instruction.operands[3] == "RZ":
        return "same"  # never less than 0
    if opcode in LOADS:
        return "together"
    if opcode == "SHFL":
        # All lanes read one lane, if the warp is whole; the predicate tells whether that lane exists.
        return "shuffle" if "IDX" in instruction.modifiers and instruction.operands[-1] == "0x1f" else "varying"
    return "operands"


class Definition:
    def __init__(self, block, instruction, register, used):
        self.block, self.instruction, self.register, self.used = block, instruction, register, used


class Values:
    """Finds the definition of each register at each instruction, joins included; then finds the definitions that
    vary."""

    def __init__(self, graph, rows=False):
        """rows: whether the threads of a warp have the same %tid.x / 32, since the block has one row or rows of
        whole warps."""
        self.graph, self.rows = graph, rows
        self.definitions = [Definition(graph.order[0], None, None, [])]  # 0: the value of a register at the entry
        self.joins = {}
        self.used = {}
        self._number()
        self.varying = [False] * len(self.definitions)
        self.apart = set()  # blocks where lanes of different paths join
        self.turns = []  # loops that lanes leave in different turns
        self.spread = set()

    def _number(self):
        graph = self.graph
        places = {}
        for block in graph.order:
            for place, each in enumerate(block.instructions):
                clobbered = [f"R{number}" for number in range(255)] + [f"P{number}" for number in range(7)] \
                    if each.opcode == "CALL" and block.unknown_call else []
                for register in each.results + each.weak_results + clobbered:
                    if (block, place, register) not in places:
                        places[block, place, register] = len(self.definitions)
                        self.definitions.append(Definition(block, each, register, []))
        last = {}
        for (block, place, register), number in places.items():
            last.setdefault(block, {})[register] = number
        self.entry = {graph.order[0]: {}}
        leaving = {}
        changed = True
        while changed:
            changed = False
            for block in graph.order:
                came = [leaving[each] for each in block.predecessors if each in leaving]
                if block is graph.order[0]:
                    came.append({})
                state = {}
                for register in set().union(*came):
                    numbers = {each.get(register, 0) for each in came}
                    if (block, register) in self.joins:
                        state[register] = self.joins[block, register]
                    elif len(numbers) == 1:
                        state[register] = numbers.pop()
                    else:
                        state[register] = self.joins[block, register] = len(self.definitions)
                        self.definitions.append(Definition(block, None, register, []))
                out = {**state, **last.get(block, {})}
                if self.entry.get(block) != state or leaving.get(block) != out:
                    self.entry[block], leaving[block], changed = state, out, True
        self._drop_needless(leaving)
        self._uses(places)

    def _drop_needless(self, leaving):
        """A join of one value with itself is that value."""
        self.same = list(range(len(self.definitions)))
        arguments = {}
        for (block, register), number in self.joins.items():
            came = [leaving[each].get(register, 0) for each in block.predecessors]
            arguments[number] = came + ([0] if block is self.graph.order[0] else [])
        changed = True
        while changed:
            changed = False
            for number, came in arguments.items():
                if self.same[number] != number:
                    continue
                others = {self.find(each) for each in came} - {number}
                if len(others) == 1:
                    self.same[number], changed = others.pop(), True
        for number, came in arguments.items():
            self.definitions[number].used = list({self.find(each) for each in came})

    def find(self, number):
        while self.same[number] != number:
            number = self.same[number]
        return number

    def _uses(self, places):
        for block in self.graph.order:
            state = dict(self.entry[block])
            for place, each in enumerate(block.instructions):
                used = {register: self.find(state.get(register, 0)) for register in each.reads}
                self.used[block, place] = used
                kept = each.guard is not None
                found = {}
                for register in each.results + each.weak_results:
                    number = places[block, place, register]
                    old = [self.find(state.get(register, 0))] if kept or register in each.weak_results else []
                    self.definitions[number].used = list(used.values()) + old
                    self.definitions[number].place = place
                    found[register] = number
                if each.opcode == "CALL" and block.unknown_call:
                    found = {register: number for (at, where, register), number in places.items() if at is block and where == place}
                state.update(found)

    def varies(self, number, block):
        """Whether a value read in this block may differ between lanes: different turns of a loop may have defined
        it."""
        if self.varying[number]:
            return True
        made = self.definitions[number].block
        return number != 0 and any(made in members and block not in members for members in self.turns)

    def branch_varies(self, block):
        place = len(block.instructions) - 1
        return any(self.varies(number, block) for number in self.used[block, place].values())

    def constant(self, block, place, register):
        """Whether the register surely holds all ones."""
        return self._all_ones(self.used[block, place].get(register, 0), set())

    def _all_ones(self, number, seen):
        if number in seen:
            return True
        made = self.definitions[number]
        if number == 0 or made.instruction is None and not made.used:
            return False
        if made.instruction is None:
            return all(self._all_ones(each, seen | {number}) for each in made.used)
        each = made.instruction
        return each.guard is None and each.opcode in ("MOV", "UMOV", "IMAD") and each.operands[-1] in ("-0x1", "0xffffffff") \
            and (each.opcode != "IMAD" or each.operands[1:3] == ["RZ", "RZ"])

    def settle(self, whole):
        """Updates `varying` to a fixed point; whole(block, place): whether all lanes of the warp are there."""
        changed = True
        while changed:
            changed = False
            for number, each in enumerate(self.definitions):
                if self.varying[number] or number == 0 or self.same[number] != number:
                    continue
                if self._made_varying(number, each, whole):
                    self.varying[number] = changed = True
            for block in self.graph.order:
                if block not in self.spread and len(block.successors) > 1 and parts(block) and self.branch_varies(block):
                    self.spread.add(block)
                    self._spread(block)
                    changed = True

    def _made_varying(self, number, each, whole):
        uniform_register = each.register[0] == "U"
        if each.instruction is None:
            if each.block in self.apart and not uniform_register:
                return True
            return any(self.varies(one, each.block) for one in each.used)
        if each.instruction.opcode == "CALL":
            return not uniform_register
        if self.rows and self._is_warp_of_row(each):
            return False
        kind = rule(each.instruction)
        differ = any(self.varies(one, each.block) for one in each.used)
        together = whole(each.block, each.place)
        if kind == "same":
            return each.instruction.guard is not None and differ
        if kind == "whole":
            # With a guard, the result comes only from the lanes for which the guard holds.
            guarded = each.instruction.guard is not None and differ
            return not uniform_register and guarded or differ and not together
        if kind == "together":
            return differ or not together
        if kind == "shuffle":
            source = each.instruction.operands[2:3] and [one for register, one in self.used[each.block, each.place].items()
                                                         if register == each.instruction.operands[-2]]
            if each.register[0] == "P" or each.instruction.guard is not None:
                return True
            return not together or any(self.varies(one, each.block) for one in source)
        return kind == "varying" or differ

    def _is_warp_of_row(self, made):
        """Whether the value is %tid.x, shifted right by 5 or more."""
        each = made.instruction
        if each.opcode != "SHF" or each.modifiers not in (["R", "U32", "HI"], ["R", "S32", "HI"]) or each.guard is not None \
                or each.operands[1] != "RZ" or not re.fullmatch(r"0x[0-9a-f]+", each.operands[2]) or int(each.operands[2], 16) < 5:
            return False
        source = [self.definitions[number].instruction for number in made.used]
        return len(source) == 1 and source[0] is not None and source[0].guard is None and source[0].text.endswith("SR_TID.X")

    def _spread(self, branch):
        """Marks the blocks where the paths of a varying branch join again, up to the join of all paths. Each block
        gets the label of the one path that reaches it, or counts as a join (Karrenberg's sync dependence, as in
        LLVM)."""
        labels, pending = {}, set()

        def reach(block, label):
            before = labels.get(block)
            if before is None:
                labels[block] = label
                pending.add(block)
            elif before != label and before is not block:
                labels[block] = block
                self.apart.add(block)
                pending.add(block)

        for way, each in enumerate(branch.successors):
            reach(each, way)
        while len(pending) > 1:
            block = min(pending, key=lambda each: each.place)
            pending.discard(block)
            for each in block.successors:
                reach(each, labels[block])
        for members, heads in self.graph.loops:
            if branch in members and any(each not in members for each in labels) and any(each in labels for each in heads) \
                    and members not in self.turns:
                self.turns.append(members)


def parts(block):
    """Whether the lanes may take different paths at the last instruction."""
    last = block.instructions[-1]
    if last.opcode == "BRA":
        return not last.always and not {"DIV", "U"} & set(last.modifiers)
    return last.opcode in ("BRX", "JMX") or last.opcode in ("CALL", "RET", "JMP") and not last.always
