"""The tables of the measured rows: a line for each cell, as CSV and as a table for people. Ratios are over `alone`
of the same repetitions; brackets, and the columns `_low` and `_high`, hold those of single repetitions."""
import csv
import os

from evaluation import results
from colocation import mean, median, p99

FIGURES = {"ttft": "ttft_us", "tpot": "tpot_us"}
COLUMNS = ["pair", "system", "arrivals", "load", "requests", "repetitions", "rate_per_s", *(
    f"{name}_{part}" for name in FIGURES for part in ("p50_us", "p99_us", "p50", "p99", "p99_low", "p99_high")), "tokens_per_s",
    "service_us_per_token", "a", "best_effort", "best_effort_low", "best_effort_high", "best_effort_of_rest", "same_answers", "policy"]
LEAST_REST = 0.05  # fraction of the time; with less time left by requests, a ratio over it means nothing


def cells(rows):
    """Rows of measured cells, without those of capacity and of training alone, by all of a row's key but its
    repetition."""
    found = {}
    for row in rows:
        if "ttft_us" in row:
            found.setdefault((row["pair"], row["arrivals"], row["load"], row["system"]), {})[row["repetition"]] = row
    return found


def summarize(rows):
    table, measured = [], cells(rows)
    for (pair, arrivals, load, system), own in measured.items():
        base = measured.get((pair, arrivals, load, "alone"), {})
        both = [(own[repetition], base[repetition]) for repetition in own if repetition in base]
        if not both:
            continue
        cell = [row for row, _ in both]
        out = {"pair": pair, "system": system, "arrivals": arrivals, "load": load, "requests": sum(row["asked"] for row in cell),
               "repetitions": len(cell), "rate_per_s": mean([1e6 / row["period_us"] for row in cell]),
               "tokens_per_s": mean([row["tokens_per_s"] for row in cell]),
               "service_us_per_token": mean([row["service_us_per_token"] for row in cell]),
               "a": mean([before["active"] for _, before in both]), "policy": cell[0].get("policy", ""),
               "same_answers": mean([mean([float(one == other) for one, other in zip(row["answers"], before["answers"])])
                                     for row, before in both])}
        for name, key in FIGURES.items():
            here, alone = (sum((each[which][key] for each in both), []) for which in (0, 1))
            single = [p99(row[key]) / p99(before[key]) for row, before in both]
            out.update({f"{name}_p50_us": median(here), f"{name}_p99_us": p99(here), f"{name}_p50": median(here) / median(alone),
                        f"{name}_p99": p99(here) / p99(alone), f"{name}_p99_low": min(single), f"{name}_p99_high": max(single)})
        if all("steps_per_s" in row for row in cell):
            ratios = [row["steps_per_s"] / row["alone_steps_per_s"] for row in cell]
            out.update(best_effort=mean(ratios), best_effort_low=min(ratios), best_effort_high=max(ratios))
            if 1 - out["a"] >= LEAST_REST:
                out["best_effort_of_rest"] = mean(ratios) / (1 - out["a"])
        table.append(out)
    return table


def write(folder, table):
    with open(os.path.join(folder, "cells.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({key: results.rounded(value) for key, value in row.items()} for row in table)


def times(row, name):
    """P50 and P99 in milliseconds, P99 over alone, and the P99 of single repetitions."""
    span = f"[{row[f'{name}_p99_low']:.2f}, {row[f'{name}_p99_high']:.2f}]"
    return f"{row[f'{name}_p50_us'] / 1e3:9.2f}{row[f'{name}_p99_us'] / 1e3:9.2f}{row[f'{name}_p99']:8.2f} {span:>15}"


def text(table):
    lines = []
    for group in dict.fromkeys((row["pair"], row["arrivals"], row["load"]) for row in table):
        own = [row for row in table if (row["pair"], row["arrivals"], row["load"]) == group]
        lines += [f"{group[0]}, {group[1]} at {group[2]:g} of the capacity, {own[0]['rate_per_s']:.2f} requests/s:",
                  f"{'':30}{'TTFT P50':>9}{'P99 ms':>9}{'/alone':>8}{'':16}{'TPOT P50':>9}{'P99 ms':>9}{'/alone':>8}{'':16}"
                  f"{'tokens/s':>9}{'A':>7}{'of alone':>10}{'of (1-A)':>10}{'same':>6}"]
        for row in own:
            rest = f"{row['best_effort_of_rest']:10.3f}" if "best_effort_of_rest" in row else f"{'-':>10}"
            effort = f"{row['best_effort']:10.3f}{rest}" if "best_effort" in row else f"{'-':>10}{'-':>10}"
            lines.append(f"{row['system']:30}{times(row, 'ttft')}{times(row, 'tpot')}{row['tokens_per_s']:9.0f}{row['a']:7.3f}{effort}"
                         f"{row['same_answers']:6.2f}")
    lines += ["TTFT: from the intended arrival to the first token. TPOT: between tokens. A: fraction of the time with a request in flight, alone.",
              "of alone, of (1-A): the training's steps/s. same: requests that have the tokens that they have alone."]
    return "\n".join(lines)


def differing(rows):
    """Names the rows in which the probe, a request alone on the server, has other tokens than in the first row."""
    first, found = {}, []
    for row in rows:
        for when in ("before", "after"):
            probe = row.get(f"probe_{when}")
            if probe and first.setdefault(row["pair"], probe) != probe:
                found.append(f"{row['pair']} {row['system']} repetition {row['repetition']}: the probe {when} the load has other tokens")
    return found
