"""What was measured, one JSON object a line, so that a run can be taken up again; and the tables made of it."""
import csv
import json
import os

from colocation import mean, median, p99, percentile

KEY = ("pair", "system", "arrivals", "load", "repetition")


class Store:
    """The measurements in a folder, with the machine's facts."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "measurements.jsonl")
        self.known = {}  # of a repetition that was measured again, because it had been left half done, the last
        if os.path.exists(self.path):
            with open(self.path) as file:
                rows = [json.loads(line) for line in file if line.endswith("\n")]
            self.known = {self.key(row): row for row in rows}

    @property
    def rows(self):
        return list(self.known.values())

    @staticmethod
    def key(row):
        return tuple(row[each] for each in KEY)

    def facts(self, facts):
        """Keeps the facts; another machine's must not be mixed in."""
        path = os.path.join(self.folder, "machine.json")
        if os.path.exists(path):
            with open(path) as file:
                before = json.load(file)
            if any(before.get(each) != facts[each] for each in ("gpu", "sms", "cuda_driver", "device", "size")):
                raise ValueError(f"{self.folder} has figures of {before['gpu']}, another machine or size; choose another --out")
            return
        with open(path, "w") as file:
            json.dump(facts, file, indent=1)

    def add(self, row):
        self.known[self.key(row)] = row
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")


def cell_rows(rows, pair, system, arrivals, load):
    return [row for row in rows if (row["pair"], row["system"], row["arrivals"], row["load"]) ==
            (pair, system, arrivals, load)]


def summarize(rows, slo):
    """A row for each cell. Ratios are over `alone` of the same repetitions; in `p99_low` and `p99_high` the
    lowest and highest of single repetitions."""
    table = []
    for pair, system, arrivals, load in dict.fromkeys(Store.key(row)[:4] for row in rows):
        cell = cell_rows(rows, pair, system, arrivals, load)
        base = {row["repetition"]: row for row in cell_rows(rows, pair, "alone", arrivals, load)}
        cell = [row for row in cell if row["repetition"] in base and row["latency_us"]]
        if not cell:
            continue
        latency = sum((row["latency_us"] for row in cell), [])
        alone = sum((base[row["repetition"]]["latency_us"] for row in cell), [])
        single = [p99(row["latency_us"]) / p99(base[row["repetition"]]["latency_us"]) for row in cell]
        asked = sum(row["asked"] for row in cell)
        active = mean([base[row["repetition"]]["active"] for row in cell])
        out = {"pair": pair, "system": system, "arrivals": arrivals, "load": load,
               "requests": len(latency), "cut": asked - len(latency), "repetitions": len(cell),
               "p50_us": median(latency), "p99_us": p99(latency),
               "p999_us": percentile(latency, 0.999) if len(latency) >= 20000 else None,
               "p50": median(latency) / median(alone), "p99": p99(latency) / p99(alone),
               "p99_low": min(single), "p99_high": max(single),
               "slo": sum(each <= slo * p99(alone) for each in latency) / asked, "a": active}
        if "steps_per_s" in cell[0]:
            ratios = [row["steps_per_s"] / row["alone_steps_per_s"] for row in cell]
            served = [min(1.0, len(row["latency_us"]) / row["asked"] * row["span_s"] / max(row["seconds"], row["span_s"]))
                      for row in cell]
            out.update(best_effort=mean(ratios), best_effort_low=min(ratios), best_effort_high=max(ratios),
                       best_effort_of_rest=mean(ratios) / (1 - active), system_sum=mean(served) + mean(ratios))
        table.append(out)
    return table


COLUMNS = ["pair", "system", "arrivals", "load", "requests", "cut", "repetitions", "p50_us", "p99_us", "p999_us", "p50",
           "p99", "p99_low", "p99_high", "slo", "a", "best_effort", "best_effort_low", "best_effort_high",
           "best_effort_of_rest", "system_sum"]


def rounded(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


def write(store, table):
    with open(os.path.join(store.folder, "cells.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({key: rounded(value) for key, value in row.items()} for row in table)
    with open(os.path.join(store.folder, "machine.json")) as file:
        machine = json.load(file)
    with open(os.path.join(store.folder, "cells.json"), "w") as file:
        json.dump({"machine": machine, "cells": [{key: rounded(value) for key, value in row.items()} for row in table]},
                  file, indent=1)


def text(table):
    """The table for people."""
    lines = [f"{'':34}{'system':20}{'load':>5} {'requests':>8} {'P50':>6} {'P99':>7} {'by repetition':>15} "
             f"{'SLO':>6} {'A':>6} {'BE':>6} {'BE/(1-A)':>9} {'sum':>6}"]
    for row in table:
        be = (f"{row['best_effort']:6.3f} {row['best_effort_of_rest']:9.3f} {row['system_sum']:6.2f}"
              if "best_effort" in row else "")
        cut = ">" if row["cut"] else " "
        lines.append(f"{row['pair'][:33]:34}{row['system']:20}{row['load']:5.2f} {row['requests']:8} {row['p50']:6.2f} "
                     f"{cut}{row['p99']:6.2f} {row['p99_low']:7.2f}-{row['p99_high']:<7.2f} {row['slo']:6.3f} "
                     f"{row['a']:6.3f} {be}")
    return "\n".join(lines)
