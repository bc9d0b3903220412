"""Finds the barriers that only a part of a warp may reach: tracks the branches that split the warp, and the
instructions that join the lanes again."""
from values import Values, parts

COLLECTIVE = 16  # slot beside the sixteen barrier registers: the state of the warp before WARPSYNC.COLLECTIVE


class Finding:
    def __init__(self, barrier, causes, path):
        self.barrier, self.causes, self.path = barrier, causes, path


class State:
    """The branches that have left lanes elsewhere (a bit each), now and at the setting of each barrier register, and
    the BSSY that set it."""
    __slots__ = ("now", "then")

    def __init__(self, now=0, then=None):
        self.now, self.then = now, then or ((0, 0),) * (COLLECTIVE + 1)

    def joined(self, other):
        return State(self.now | other.now, tuple((a | c, b | d) for (a, b), (c, d) in zip(self.then, other.then)))

    def same(self, other):
        return self.now == other.now and self.then == other.then


class Parting:
    def __init__(self, graph, rows=False):
        self.graph, self.values = graph, Values(graph, rows)
        self.causes = []  # per bit: the instruction, and whether its effect on the warp is unknown
        self.bits, self.setters = {}, {}
        self.broken = {}  # per BSSY: the causes that remain after its BSYNC
        self.saved = {}  # per call and barrier register: the state that BMOV saved
        self.before = {}
        while True:
            parted = dict(self.before)
            self.values.settle(lambda block, place: parted.get((block, place), 0) == 0)
            self._flow()
            if self.before == parted:
                break

    def _bit(self, block, instruction, unknown=False):
        key = (block, instruction.address)
        if key not in self.bits:
            self.bits[key] = 1 << len(self.causes)
            self.causes.append((instruction, unknown))
        return self.bits[key]

    def _flow(self):
        entry = {self.graph.order[0]: State()}
        changed = True
        while changed:
            changed = False
            before = (dict(self.broken), dict(self.saved))
            for block in self.graph.order:
                if block not in entry:
                    continue
                for successor, state in self._through(block, entry[block]):
                    known = entry.get(successor)
                    new = known.joined(state) if known else state
                    if known is None or not new.same(known):
                        entry[successor], changed = new, True
            changed |= before != (self.broken, self.saved)
        self.entry = entry

    def _through(self, block, state):
        now, then = state.now, list(state.then)
        values = self.values
        for place, each in enumerate(block.instructions):
            self.before[block, place] = now
            opcode = each.opcode
            varies = each.guard is not None and any(values.varies(number, block) for number in values.used[block, place].values())
            if opcode == "BSSY":
                if each not in self.setters:
                    self.setters[each] = 1 << len(self.setters)
                then[each.barrier] = (now, self.setters[each])
            elif opcode == "BSYNC":
                causes, setters = then[each.barrier]
                now = causes | self._broken(setters) if setters else now | self._bit(block, each, True)
            elif opcode == "BREAK":
                causes, setters = then[each.barrier]
                if varies or now & ~causes:
                    self.broken[setters] = self.broken.get(setters, 0) | self._bit(block, each)
            elif opcode == "BMOV":
                now = self._move(block, each, then, now)
            elif opcode == "WARPSYNC" and each.guard is None:
                if "COLLECTIVE" in each.modifiers:
                    then[COLLECTIVE] = (now, 0)
                if "ALL" in each.modifiers or each.operands and values.constant(block, place, each.operands[0]):
                    now = 0
            elif opcode == "ENDCOLLECTIVE":
                now = then[COLLECTIVE][0]
            elif opcode == "CALL" and block.unknown_call:
                now |= self._bit(block, each, True)
        last = block.instructions[-1]
        after = State(now, tuple(then))
        if last.opcode == "BRA" and "DIV" in last.modifiers:
            met = State(0, after.then) if values.constant(block, len(block.instructions) - 1, last.operands[0]) else after
            target = self.graph.section.labels[last.targets[0]]
            return [(each, after if each.instructions[0].address == target else met) for each in block.successors]
        if parts(block) and len(block.successors) > 1 and values.branch_varies(block):
            after.now |= self._bit(block, last)
        return [(each, after) for each in block.successors]

    def _broken(self, setters):
        return sum_bits(causes for broken, causes in self.broken.items() if broken & setters)

    def _move(self, block, each, then, now):
        """BMOV Rn, Bm saves a barrier register; BMOV Bm, Rn restores the value that the same function saved."""
        key = (block.context, each.barrier)
        if each.operands[0].startswith("R"):
            causes, setters = then[each.barrier]
            known = self.saved.get(key, (0, 0))
            self.saved[key] = (known[0] | causes, known[1] | setters)
        elif key in self.saved:
            then[each.barrier] = self.saved[key]
        else:
            now |= self._bit(block, each, True)
        return now

    def barriers(self):
        return {each.address: each for block in self.graph.order for each in block.instructions if each.opcode == "BAR"}

    def findings(self):
        """A finding for each barrier that only a part of a warp may reach, and for each barrier of unknown state."""
        found = {}
        for block in self.graph.order:
            for place, each in enumerate(block.instructions):
                now = self.before.get((block, place), 0)
                if each.opcode != "BAR" or not now:
                    continue
                bits = [bit for bit in range(len(self.causes)) if now >> bit & 1]
                sure = [bit for bit in bits if not self.causes[bit][1]]
                finding = found.setdefault(each.address, Finding(each, {}, []))
                for bit in bits:
                    finding.causes[self.causes[bit][0].address] = self.causes[bit]
                if not finding.path:
                    finding.path = self._path((sure or bits)[0], block)
        return found.values()

    def _path(self, bit, barrier):
        """The first addresses of the blocks on a shortest path to the barrier along which the lanes stay separate."""
        (branch, address), = [key for key, value in self.bits.items() if value == 1 << bit]
        came, waiting = {branch: None}, [branch]
        while waiting and barrier not in came:
            block = waiting.pop(0)
            for each in block.successors:
                if each not in came and self.entry[each].now >> bit & 1:
                    came[each] = block
                    waiting.append(each)
        path, block = [], barrier
        while block is not None and block is not branch:
            path.insert(0, block.instructions[0].address)
            block = came.get(block)
        return path


def sum_bits(masks):
    found = 0
    for each in masks:
        found |= each
    return found
