"""The control-flow graph of a kernel's machine code, with called functions inlined, and its nested loops."""
MAX_CALLS = 8


class Block:
    def __init__(self, number, context):
        self.number, self.context = number, context
        self.instructions, self.successors, self.predecessors = [], [], []
        self.unknown_call = False


class Graph:
    """Each call has a copy of the called function, so that states of different callers stay separate. A recursive
    call, and a call whose target the text does not name, stays a call."""

    def __init__(self, section):
        self.section, self.blocks = section, []
        self.starts = set(section.labels.values())
        self.known = {}
        waiting = [self._block((), section.instructions[0].address)]
        while waiting:
            block, address = waiting.pop()
            for context, target in self._fill(block, address):
                created = (context, target) not in self.known
                successor, _ = self._block(context, target)
                if successor not in block.successors:
                    block.successors.append(successor)
                    successor.predecessors.append(block)
                if created:
                    waiting.append((successor, target))
        self._order()

    def _block(self, context, address):
        if (context, address) not in self.known:
            self.known[context, address] = Block(len(self.blocks), context)
            self.blocks.append(self.known[context, address])
        return self.known[context, address], address

    def _fill(self, block, address):
        """Takes instructions up to a possible branch, or up to the target of one; returns the successors."""
        section, place = self.section, self.section.index[address]
        while True:
            each = section.instructions[place]
            block.instructions.append(each)
            following = section.instructions[place + 1].address if place + 1 < len(section.instructions) else None
            ahead = [(block.context, following)] if following is not None else []
            targets = [(block.context, section.labels[name]) for name in each.targets if name in section.labels]
            if each.opcode in ("EXIT", "BPT", "KILL") and each.always and each.text != "BPT.DRAIN":
                return []
            if each.opcode in ("BRA", "BRX", "BRXU", "JMP", "JMX"):
                return targets + ([] if each.always and "DIV" not in each.modifiers else ahead)
            if each.opcode == "RET":
                back = [(block.context[:-1], block.context[-1][1])] if block.context else []
                return back + ([] if each.always else ahead)
            if each.opcode == "CALL":
                name = each.targets[0] if each.targets and len(each.operands) == 0 else None
                if name not in section.labels or len(block.context) == MAX_CALLS or name in [caller[0] for caller in block.context]:
                    block.unknown_call = True
                    return ahead
                return [(block.context + ((name, following),), section.labels[name])] + ([] if each.always else ahead)
            if following is None or following in self.starts:
                return ahead
            place += 1

    def _order(self):
        """Gives each block its place in a weak topological order (Bourdoncle 1993), in which the blocks of a loop
        stand together, and lists the loops as sets of blocks with their heads."""
        self.loops, self.order = [], []
        self._components(set(self.blocks), [self.blocks[0]])
        for place, block in enumerate(self.order):
            block.place = place

    def _components(self, inside, roots):
        found = strongly_connected(inside, roots)
        for component in reversed(found):
            if len(component) == 1 and component[0] not in component[0].successors:
                self.order.append(component[0])
                continue
            members = set(component)
            heads = [each for each in component if each in roots or any(one not in members for one in each.predecessors)]
            self.loops.append((members, set(heads)))
            self.order += heads[:1]
            rest = members - {heads[0]}
            self._components(rest, [each for each in rest if any(one not in rest for one in each.predecessors)])


def strongly_connected(inside, roots):
    """Tarjan's components of the blocks reachable from the roots, each component behind its successors."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in sorted(roots, key=lambda each: each.number):
        if root in index:
            continue
        work = [(root, iter(root.successors))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            block, successors = work[-1]
            for each in successors:
                if each not in inside:
                    continue
                if each not in index:
                    index[each] = low[each] = len(index)
                    stack.append(each)
                    on_stack.add(each)
                    work.append((each, iter(each.successors)))
                    break
                if each in on_stack:
                    low[block] = min(low[block], index[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[block])
                if low[block] == index[block]:
                    component = []
                    while not component or component[-1] is not block:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    found.append(component[::-1])
    return found
