"""Lateness of requests by their place behind an idle server, from the measurements of a run: the cost of a wake, and
the additional cost of each request that waits."""
from colocation import PLACES, median, places

from . import loads
from .results import KEY

LATE_US = 200


def arrivals(row):
    """The arrivals of a measurement, computed again as the run computed them, since a run does not keep them."""
    return loads.arrivals(row["arrivals"], row["asked"], row["service_us"] / row["load"], row["repetition"])


def table(rows):
    """A row for each cell and place that has requests; `late_us`: microseconds over the same request of `alone` in
    the same repetition."""
    measured = [row for row in rows if row["latency_us"]]
    base = {tuple(row[each] for each in KEY if each != "system"): row for row in measured if row["system"] == "alone"}
    late = {}
    for row in measured:
        alone = base.get(tuple(row[each] for each in KEY if each != "system"))
        # The service time differs if a repetition was begun again after an interruption.
        if row["system"] == "alone" or not alone or alone["service_us"] != row["service_us"]:
            continue
        cell = late.setdefault(tuple(row[each] for each in KEY[:4]), {})
        ours = arrivals(row)
        if any(one != other for one, other in zip(ours, arrivals(alone))):
            raise ValueError(f"{row['pair']} {row['system']}: other arrivals than those of alone")
        for place, took, before in zip(places(ours, row["latency_us"]), row["latency_us"], alone["latency_us"]):
            cell.setdefault(PLACES[min(place, 3)], []).append(took - before)
    return [{**dict(zip(KEY, key)), "place": place, "requests": len(cell[place]), "late_us": median(cell[place]),
             "very_late": sum(each > LATE_US for each in cell[place])}
            for key, cell in late.items() for place in PLACES if place in cell]


def text(found):
    """The table for people."""
    lines = [f"{'':34}{'system':20}{'load':>5} {'place':>5} {'requests':>8} {'late us':>9} {f'by > {LATE_US} us':>11}"]
    lines += [f"{row['pair'][:33]:34}{row['system']:20}{row['load']:5.2f} {row['place']:>5} {row['requests']:8} "
              f"{row['late_us']:9.1f} {row['very_late']:11}" for row in found]
    return "\n".join(lines + ["place: 0 came to an idle server, 1 waited first behind that one; late: the median over the same request of alone"])
