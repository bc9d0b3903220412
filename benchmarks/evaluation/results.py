"""The measurements, one JSON object a line, so that an interrupted run can continue; and the tables computed from
them."""
import csv
import json
import os
import threading

import cores
from colocation import mean, median, p99, percentile

KEY = ("pair", "system", "arrivals", "load", "repetition")


class Store:
    """The measurements in a folder, with the machine's facts. Any thread may call `add` and `say`."""

    def __init__(self, folder):
        self.folder, self.lock = folder, threading.Lock()
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "measurements.jsonl")
        self.known = {}  # of a repetition that was repeated because it was incomplete, the last
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
        """Keeps the facts, and rejects those of another machine."""
        path = os.path.join(self.folder, "machine.json")
        if os.path.exists(path):
            with open(path) as file:
                before = json.load(file)
            before.setdefault("models", "cuda")
            if any(before.get(each) != facts[each] for each in ("gpu", "sms", "cuda_driver", "device", "models", "size")):
                raise ValueError(f"{self.folder} has figures of {before['gpu']}, another machine, other models or another size; choose another --out")
            return
        with open(path, "w") as file:
            json.dump(facts, file, indent=1)

    def say(self, pair, said):
        """Keeps the standard error of a pair's processes; under tally it has the statistics of launches."""
        with self.lock, open(os.path.join(self.folder, "said.txt"), "a") as file:
            for system, part, text in said:
                if text.strip():
                    file.write(f"{pair} {system} {part}: {text.strip()}\n")

    def logs(self, found):
        """Keeps the counts that logs.counts() found in the logs of a repetition."""
        if found:
            with self.lock, open(os.path.join(self.folder, "logs.jsonl"), "a") as file:
                file.writelines(json.dumps(each) + "\n" for each in found)

    def add(self, row):
        with self.lock, open(self.path, "a") as file:
            self.known[self.key(row)] = row
            file.write(json.dumps(row) + "\n")


def cell_rows(rows, pair, system, arrivals, load):
    return [row for row in rows if (row["pair"], row["system"], row["arrivals"], row["load"]) ==
            (pair, system, arrivals, load)]


def summarize(rows, slo):
    """A row for each cell. Ratios are over `alone` of the same repetitions and arrivals. If a cell has fewer
    requests, the ratio uses as many of alone's, the first. `p99_low` and `p99_high` are the lowest and highest of
    single repetitions. The SLO uses all requests of `alone`."""
    table = []
    for pair, system, arrivals, load in dict.fromkeys(Store.key(row)[:4] for row in rows):
        cell = cell_rows(rows, pair, system, arrivals, load)
        base = {row["repetition"]: row for row in cell_rows(rows, pair, "alone", arrivals, load)}
        cell = [row for row in cell if row["repetition"] in base and row["latency_us"]]
        if not cell:
            continue
        latency = sum((row["latency_us"] for row in cell), [])
        same = [base[row["repetition"]]["latency_us"][:row["asked"]] for row in cell]
        alone = sum(same, [])
        single = [p99(row["latency_us"]) / p99(before) for row, before in zip(cell, same)]
        allowed = slo * p99(sum((base[row["repetition"]]["latency_us"] for row in cell), []))
        asked = sum(row["asked"] for row in cell)
        active = mean([base[row["repetition"]]["active"] for row in cell])
        out = {"pair": pair, "system": system, "arrivals": arrivals, "load": load,
               "requests": len(latency), "cut": asked - len(latency), "repetitions": len(cell),
               "p50_us": median(latency), "p99_us": p99(latency),
               "p999_us": percentile(latency, 0.999) if len(latency) >= 20000 else None,
               "p50": median(latency) / median(alone), "p99": p99(latency) / p99(alone),
               "p99_low": min(single), "p99_high": max(single),
               "slo": sum(each <= allowed for each in latency) / asked, "a": active}
        if "steps_per_s" in cell[0]:
            ratios = [row["steps_per_s"] / row["alone_steps_per_s"] for row in cell]
            served = [min(1.0, len(row["latency_us"]) / row["asked"] * row["span_s"] / max(row["seconds"], row["span_s"]))
                      for row in cell]
            out.update(best_effort=mean(ratios), best_effort_low=min(ratios), best_effort_high=max(ratios),
                       best_effort_of_rest=mean(ratios) / (1 - active), system_sum=mean(served) + mean(ratios))
        table.append(out)
    return table


COUNTS_FROM = 2.0  # P99 of a plain low-priority stream over alone; a pair with a lower ratio shows no effect


def counting(table):
    """The rows of all pairs but those known not to count."""
    spared = {(row["pair"], row["arrivals"], row["load"]) for row in table
              if row["system"] == "low-priority" and row["p99"] < COUNTS_FROM}
    return [row for row in table if (row["pair"], row["arrivals"], row["load"]) not in spared]


def by_system(table):
    """A row for each system, arrivals and load, over the pairs that count."""
    rows = []
    for system, arrivals, load in dict.fromkeys((row["system"], row["arrivals"], row["load"]) for row in table):
        cells = [row for row in counting(table) if (row["system"], row["arrivals"], row["load"]) == (system, arrivals, load)]
        if not cells:
            continue
        worst = max(cells, key=lambda row: row["p99"])
        out = {"system": system, "arrivals": arrivals, "load": load, "pairs": len(cells),
               "p99_mean": mean([row["p99"] for row in cells]), "p99_worst": worst["p99"], "worst_pair": worst["pair"],
               "slo_mean": mean([row["slo"] for row in cells])}
        trained = [row for row in cells if "best_effort" in row]
        if trained:
            out.update(best_effort_of_rest_mean=mean([row["best_effort_of_rest"] for row in trained]),
                       best_effort_of_rest_least=min(row["best_effort_of_rest"] for row in trained),
                       system_sum_mean=mean([row["system_sum"] for row in trained]))
        rows.append(out)
    return rows


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
        plain = [[{key: rounded(value) for key, value in row.items()} for row in rows] for rows in (table, by_system(table))]
        json.dump({"machine": machine, "disturbances": cores.disturbances(store.rows), "cells": plain[0], "systems": plain[1]}, file, indent=1)


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
    kept = counting(table)
    for pair, load in dict.fromkeys((row["pair"], row["load"]) for row in table if row not in kept):
        lines.append(f"does not count  {pair} at {load:g}: P99 of the low-priority stream is below {COUNTS_FROM:g}x alone")
    lines.append(f"\n{'over the pairs that count':27}{'load':>5} {'pairs':>5} {'P99 mean':>9} {'worst':>7} {'SLO':>6} "
                 f"{'BE/(1-A)':>9} {'least':>6} {'sum':>6}  worst P99 in")
    for row in by_system(table):
        be = (f"{row['best_effort_of_rest_mean']:9.3f} {row['best_effort_of_rest_least']:6.3f} {row['system_sum_mean']:6.2f}"
              if "system_sum_mean" in row else " " * 23)
        lines.append(f"{row['system']:27}{row['load']:5.2f} {row['pairs']:5} {row['p99_mean']:9.3f} {row['p99_worst']:7.2f} "
                     f"{row['slo_mean']:6.3f} {be}  {row['worst_pair']}")
    return "\n".join(lines)
