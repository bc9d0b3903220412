"""The limits of sharing the GPU with requests: each system is a point, the P99 of requests over alone against
best-effort throughput. From a pair's fixed settings an oracle picks, by measurement, the setting with the most best
effort within a bound on P99. The table compares the policy slo, which gets that bound and no setting, with the
oracle."""
import bisect
import csv
import os

from . import systems

# Bounds on P99 over alone for slo, and the largest P99 that counts as within the bound.
PROMISES = {1.10: 1.12, 1.25: 1.28}
ALLOWED = 0.01  # fraction of best effort: largest loss to strict priority, and largest distance of a curve below another curve
LOW = 2.0  # P99 over alone up to which curves are compared separately
STEERED, PRIORITY = "tally, slo", "tally-everything"
TALLY = "tally"
COLUMNS = ["pair", "arrivals", "load", "family", "system", "p99", "p99_low", "p99_high", "best_effort", "best_effort_of_rest", "a", "cut"]


def family_of(system):
    return next((family for family, names in systems.FRONTIER.items() if system in names), None)


def groups(table):
    """By (pair, arrivals, load): the cells of systems of a family, each with its family. If a cell's requests were
    cut off, its P99 is too low."""
    found = {}
    for row in table:
        family = family_of(row["system"])
        if family and "best_effort" in row:
            found.setdefault((row["pair"], row["arrivals"], row["load"]), []).append({**row, "family": family})
    return found


def within(cells, bound):
    return [row for row in cells if row["p99"] <= bound and not row["cut"]]


def oracle(cells, bound):
    """The fixed setting with the most best effort within the bound, or None."""
    return max(within([row for row in cells if row["family"] != STEERED], bound), key=lambda row: row["best_effort"], default=None)


def promises(table):
    """A row for each pair, bound, and system steered to that bound."""
    found = []
    for group, cells in groups(table).items():
        named = {row["system"]: row for row in cells}
        for bound, kept in PROMISES.items():
            best = oracle(cells, bound)
            for name in systems.FRONTIER[STEERED]:
                if name not in named or systems.BY_NAME[name].bound != bound:
                    continue
                row, priority = named[name], named.get(PRIORITY)
                found.append({
                    "pair": group[0], "load": group[2], "bound": bound, "system": name, "p99": row["p99"], "best_effort": row["best_effort"],
                    "kept": row["p99"] <= kept and not row["cut"], "oracle": best and best["system"], "oracle_p99": best and best["p99"],
                    "oracle_best_effort": best and best["best_effort"],
                    "over_oracle": best and row["best_effort"] / best["best_effort"] if best and best["best_effort"] else None,
                    "over_priority": row["best_effort"] / priority["best_effort"] if priority and priority["best_effort"] else None})
    return found


class Envelope:
    """The most best effort among some cells at each P99 or below: a step function."""

    def __init__(self, cells):
        self.steps = []  # (P99, best effort, system), both ascending
        for row in sorted(within(cells, float("inf")), key=lambda row: (row["p99"], -row["best_effort"])):
            if not self.steps or row["best_effort"] > self.steps[-1][1]:
                self.steps.append((row["p99"], row["best_effort"], row["system"]))

    def at(self, p99):
        """The best effort at `p99`; None if no cell has so low a P99."""
        place = bisect.bisect_right(self.steps, p99, key=lambda step: step[0])
        return self.steps[place - 1][1] if place else None

    def beaten_by(self, other):
        """The steps of the other curve that lie above this curve. Between two of its steps the other curve is
        constant and this curve can only rise."""
        return [step for step in other.steps if (self.at(step[0]) or 0.0) < step[1] * (1 - ALLOWED)]


def envelopes(cells):
    """Curves by family; tally's fixed and steered families share one curve."""
    merged = {}
    for row in cells:
        merged.setdefault(TALLY if row["family"].startswith(TALLY) else row["family"], []).append(row)
    return {family: Envelope(each) for family, each in merged.items()}


def comparisons(table):
    """For each pair and each family but tally's: the places where that family's curve lies above tally's."""
    found = []
    for group, cells in groups(table).items():
        curves = envelopes(cells)
        ours = curves.pop(TALLY, None)
        for family, theirs in curves.items() if ours else ():
            if theirs.steps:
                found.append({"pair": group[0], "load": group[2], "family": family, "steps": len(theirs.steps),
                              "above": [(p99, effort, system, ours.at(p99)) for p99, effort, system in ours.beaten_by(theirs)]})
    return found


def write(folder, table):
    with open(os.path.join(folder, "frontier.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for cells in groups(table).values():
            writer.writerows({name: f"{value:.5g}" if isinstance(value, float) else value for name, value in row.items()} for row in cells)


def point_lines(table):
    """The points of each family and pair, in the order of P99."""
    lines = ["points: P99 over alone, best effort of alone's (over 1 - A), system; * on the family's curve"]
    for (pair, _, load), cells in groups(table).items():
        lines.append(f"{pair} at {load:g}")
        for family in dict.fromkeys(row["family"] for row in cells):
            of_family = [row for row in cells if row["family"] == family]
            curve = {system for _, _, system in Envelope(of_family).steps}
            for row in sorted(of_family, key=lambda row: row["p99"]):
                lines.append(f"  {family:20}{'>' if row['cut'] else ' '}{row['p99']:8.3f} {row['best_effort']:6.3f} "
                             f"({row['best_effort_of_rest']:6.3f}) {'*' if row['system'] in curve else ' '} {row['system']}")
    return lines


def ratio(value):
    return f"{value:7.3f}" if value is not None else f"{'-':>7}"


def promise_lines(found):
    lines = [f"{'':34}{'bound':>5} {'system':16}{'P99':>8} {'kept':>5} {'BE':>6} {'oracle P99':>10} {'BE':>6} {'over it':>7} {'/prio':>7} oracle"]
    for row in found:
        best = f"{row['oracle_p99']:10.3f} {row['oracle_best_effort']:6.3f}" if row["oracle"] else " " * 17
        lines.append(f"{row['pair'][:33]:34}{row['bound']:5.2f} {row['system']:16}{row['p99']:8.3f} {'yes' if row['kept'] else 'NO':>5} "
                     f"{row['best_effort']:6.3f} {best} {ratio(row['over_oracle'])} {ratio(row['over_priority'])} {row['oracle'] or 'none within the bound'}")
    for system in dict.fromkeys(row["system"] for row in found):
        cells = [row for row in found if row["system"] == system]
        ratios = [row["over_oracle"] for row in cells if row["over_oracle"] is not None]
        less = [row["pair"] for row in cells if row["over_priority"] is not None and row["over_priority"] < 1 - ALLOWED]
        lines.append(f"{system}: kept in {sum(row['kept'] for row in cells)} of {len(cells)}; over the oracle " +
                     (f"{sum(ratios) / len(ratios):.3f} in the mean, {min(ratios):.3f} at least, in {len(ratios)}" if ratios else "nowhere") +
                     f"; more than {ALLOWED:.0%} less than priority in " + (", ".join(less) or "none"))
    return lines


def comparison_lines(found):
    lines = []
    for row in found:
        where = "; ".join(f"at {p99:.3f} {system} has {effort:.3f}, tally " + ("nothing" if ours is None else f"{ours:.3f}")
                          for p99, effort, system, ours in row["above"])
        lines.append(f"{row['pair'][:33]:34}{row['load']:5.2f} {row['family']:20} " + (f"above tally's curve {where}" if where else "nowhere above tally's curve"))
    for family in dict.fromkeys(row["family"] for row in found):
        cells = [row for row in found if row["family"] == family]
        low = [all(p99 > LOW for p99, *_ in row["above"]) for row in cells]
        lines.append(f"tally's curve is not below that of {family} at any P99 in {sum(not row['above'] for row in cells)} of {len(cells)}, "
                     f"at none up to {LOW:g} in {sum(low)}")
    return lines


def text(table):
    found = promises(table)
    kept = ", ".join(f"at most {kept:g} where {bound:g} is asked for" for bound, kept in PROMISES.items())
    return "\n".join([*point_lines(table), "", *promise_lines(found), f"kept: P99 over alone {kept}; oracle: the most best effort of the "
                      "settings that were measured within the bound, slo's left out", "", *comparison_lines(comparisons(table))])
