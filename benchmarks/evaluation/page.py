"""Puts a run's tables and pictures into a page of the documentation, between two marks of that page."""
import json
import os
import shutil

import cores

from . import results

# Systems in the table by pair; cells.csv has the others.
SHOWN = ["alone-flushed", "low-priority", "time-slicing", "mps", "mps-priorities", "tally-block", "tally-everything", "tally-mps"]
SHOWN_OF_PYTORCH = ["alone-flushed", "time-slicing", "mps", "mps-priorities", "tally-time-slicing", "tally-mps"]


def marks(name):
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def ratio(value, cut=False):
    """The ratio as a text; `>` marks a lower bound, from a run whose requests were cut off."""
    return (">" if cut else "") + (f"{value:.2f}" if value < 10 else f"{value:.0f}")


def by_system(table):
    lines = [line(["system", "load", "pairs", "P99 over alone, mean", "worst", "in", "within the SLO", "best effort / (1 - A), mean",
                   "least", "system sum"]), "|" + "---|" * 10]
    for row in results.by_system(table):
        trained = ([f"{row['best_effort_of_rest_mean']:.3f}", f"{row['best_effort_of_rest_least']:.3f}", f"{row['system_sum_mean']:.2f}"]
                   if "system_sum_mean" in row else [""] * 3)
        lines.append(line([row["system"], f"{row['load']:.0%}", str(row["pairs"]), f"{row['p99_mean']:.3f}" if row["p99_mean"] < 10
                           else f"{row['p99_mean']:.0f}", ratio(row["p99_worst"]), row["worst_pair"], f"{row['slo_mean']:.3f}"] + trained))
    return lines


def by_pair(table, load, shown=SHOWN):
    """P99 over alone [of single repetitions], P50 over alone, best effort over alone / (1 - A)."""
    cells = {(row["pair"], row["system"]): row for row in table if row["load"] == load}
    shown = [name for name in shown if any(system == name for _, system in cells)]
    counted = {row["pair"] for row in results.counting(table) if row["load"] == load}
    lines = [line(["pair"] + shown), "|" + "---|" * (len(shown) + 1)]
    for pair in dict.fromkeys(pair for pair, _ in cells):
        texts = [pair + ("" if pair in counted else " (does not count)")]
        for name in shown:
            row = cells.get((pair, name))
            text = ""
            if row:
                text = ratio(row["p99"], row["cut"])
                if name.startswith("tally"):
                    text += f" [{ratio(row['p99_low'])}, {ratio(row['p99_high'])}], {row['p50']:.2f}"
                if "best_effort_of_rest" in row:
                    text += f"; {row['best_effort_of_rest']:.3f}"
            texts.append(text)
        lines.append(line(texts))
    return lines


def write(folder, page, name, pictures):
    """Puts the results of `folder` between the marks `name` of `page`, CSV and pictures into a folder of that name
    beside it."""
    with open(os.path.join(folder, "cells.json")) as file:
        found = json.load(file)
    machine, table = found["machine"], found["cells"]
    shown = SHOWN_OF_PYTORCH if machine.get("models") == "pytorch" else SHOWN
    load = 0.3 if any(row["load"] == 0.3 for row in table) else table[0]["load"]
    beside = os.path.join(os.path.dirname(page), name)
    os.makedirs(beside, exist_ok=True)
    for each in ["cells.csv"] + [f"{picture}.svg" for picture in pictures]:
        shutil.copyfile(os.path.join(folder, each), os.path.join(beside, each))
    lines = [f"{machine['gpu']}, {machine['sms']} SMs, CUDA {machine['cuda_driver'] // 1000}.{machine['cuda_driver'] % 1000 // 10}, {'PyTorch ' + machine['torch'] + ', ' if 'torch' in machine else ''}"
             f"{machine['date']}. {cores.disturbed(found['disturbances'])}All figures: [cells.csv]({name}/cells.csv).", ""]
    lines += by_system(table) + ["", f"By pair at {load:.0%} load: P99 over alone, of tally with that of single repetitions and P50 over alone; "
                                 "best effort / (1 - A).", ""] + by_pair(table, load, shown) + [""]
    lines += [f"![{picture}]({name}/{picture}.svg)" for picture in pictures]
    begin, end = marks(name)
    with open(page) as file:
        text = file.read()
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no lines '{begin.strip()}' and '{end.strip()}'")
    with open(page, "w") as file:
        file.write(text[:text.index(begin)] + begin + "\n" + "\n".join(lines) + "\n\n" + text[text.index(end):])
