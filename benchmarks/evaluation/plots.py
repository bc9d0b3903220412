"""Draws the pictures of a run, SVG and PNG, from its folder. It needs matplotlib, which a machine with a GPU may
lack.

  overhead     P99 over alone, per pair and system
  tradeoff     best-effort throughput against P99
  latencies    number of requests answered within a time, per pair
  timeline     work of each thread around one request, from a trace by TALLY_TRACE
  frontier     of a run of --systems=frontier: for each pair a curve for each family of systems
"""
import json
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker

from . import frontier

matplotlib.rcParams.update({"svg.hashsalt": "tally", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
HIGH, LOW = "#1f77b4", "#ff7f0e"
POINTS = 80  # points of a curve of latencies; more points only make the file larger


def color(system, order):
    """The color of a system, equal in all pictures."""
    return matplotlib.colormaps["tab20"](order.index(system) % 20)


def save(figure, folder, name):
    for suffix in ("svg", "png"):
        figure.savefig(os.path.join(folder, f"{name}.{suffix}"), dpi=150, bbox_inches="tight",
                       metadata={"Date": None} if suffix == "svg" else None)
    pyplot.close(figure)


def logarithmic(axis):
    """Plain numbers at a logarithmic axis."""
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def at_load(table, load):
    return [row for row in table if row["load"] == load and row["arrivals"] == table[0]["arrivals"]]


def overhead(table, order, folder, load):
    rows = [row for row in at_load(table, load) if row["system"] != "alone"]
    pairs = list(dict.fromkeys(row["pair"] for row in rows))
    names = [name for name in order if any(row["system"] == name for row in rows)]
    figure, axes = pyplot.subplots(figsize=(2 + 1.3 * len(pairs), 4))
    width = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        found = {row["pair"]: row for row in rows if row["system"] == name}
        places = [j for j, pair in enumerate(pairs) if pair in found]
        values = [found[pairs[j]]["p99"] for j in places]
        spread = [[max(0, value - found[pairs[j]]["p99_low"]) for value, j in zip(values, places)],
                  [max(0, found[pairs[j]]["p99_high"] - value) for value, j in zip(values, places)]]
        axes.bar([j + (i - len(names) / 2 + 0.5) * width for j in places], values, width, label=name,
                 color=color(name, order), yerr=spread, error_kw={"lw": 0.6})
    axes.axhline(1, color="black", lw=0.8)
    axes.set_yscale("log")
    logarithmic(axes.yaxis)
    axes.set_ylabel("P99 over alone")
    axes.set_xticks(range(len(pairs)), [pair.replace("/", "\n") for pair in pairs], fontsize=7)
    axes.set_title(f"P99 of requests at {load:.0%} load; bars span the repetitions")
    axes.legend(fontsize=7, ncol=2, bbox_to_anchor=(1.01, 1), loc="upper left")
    save(figure, folder, "overhead")


def tradeoff(table, order, folder, load):
    figure, axes = pyplot.subplots(figsize=(6, 4.5))
    for name in order:
        rows = [row for row in at_load(table, load) if row["system"] == name and "best_effort_of_rest" in row]
        if rows:
            axes.scatter([row["p99"] for row in rows], [row["best_effort_of_rest"] for row in rows], s=24,
                         color=color(name, order), label=name)
    axes.axhline(0.92, color="black", lw=0.8, ls=":")
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    logarithmic(axes.xaxis)
    axes.set_xlabel("P99 over alone")
    axes.set_ylabel("best effort over (1 - A) of alone")
    axes.set_title(f"At {load:.0%} load, a point for each pair")
    axes.legend(fontsize=7, bbox_to_anchor=(1.01, 1), loc="upper left")
    save(figure, folder, "tradeoff")


def panels(count):
    """A figure with so many small pictures, four a line."""
    columns = min(4, count)
    lines = -(-count // columns)
    figure, grid = pyplot.subplots(lines, columns, figsize=(3.4 * columns, 2.8 * lines), squeeze=False)
    for axes in list(grid.flat)[count:]:
        axes.set_visible(False)
    return figure, grid


def curves(axes, cells, order):
    """The points of each family, and the most best effort that the family has at each P99 or below."""
    found = frontier.envelopes(cells)
    for family in order:
        paint, of_family = matplotlib.colormaps["tab10"](order.index(family)), [row for row in cells if row["family"].startswith(family)]
        for marker, some in (("o", [row for row in of_family if row["family"] != frontier.STEERED]),
                             ("*", [row for row in of_family if row["family"] == frontier.STEERED])):
            axes.scatter([row["p99"] for row in some], [row["best_effort"] for row in some], s=14 if marker == "o" else 50,
                         marker=marker, color=paint, alpha=0.8)
        steps = found[family].steps if family in found else []
        most = max([row["p99"] for row in cells] + [1.0])
        axes.step([p99 for p99, _, _ in steps] + [most], [effort for _, effort, _ in steps] + [steps[-1][1] if steps else float("nan")],
                  where="post", lw=1.2, color=paint, label=family)
    axes.axhline(1 - cells[0]["a"], color="black", lw=0.8, ls=":")
    for bound in frontier.PROMISES:
        axes.axvline(bound, color="black", lw=0.6, ls="--")


def draw_frontier(folder, table):
    found = frontier.groups(table)
    order = list(dict.fromkeys(frontier.TALLY if family.startswith(frontier.TALLY) else family
                               for family in reversed(frontier.systems.FRONTIER)))
    figure, grid = panels(len(found))
    for axes, ((pair, _, load), cells) in zip(grid.flat, found.items()):
        curves(axes, cells, order)
        axes.set_xscale("log")
        logarithmic(axes.xaxis)
        axes.set_title(f"{pair}, {load:.0%}", fontsize=8)
        axes.set_xlabel("P99 over alone")
    grid[0][0].set_ylabel("best effort of alone's")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 0.95),
                  title="star: tally's slo\ndotted: 1 - A\ndashed: slo's bounds", title_fontsize=7)
    figure.tight_layout()
    save(figure, folder, "frontier")
    return ["frontier"]


def latencies(rows, order, folder, load):
    pairs = list(dict.fromkeys(row["pair"] for row in rows))
    figure, grid = panels(len(pairs))
    for axes, pair in zip(grid.flat, pairs):
        for name in order:
            values = sorted(sum((row["latency_us"] for row in rows
                                 if (row["pair"], row["system"], row["load"]) == (pair, name, load)), []))
            if values:
                shown = sorted({*range(0, len(values), max(1, len(values) // POINTS)), len(values) - 1})
                axes.step([values[i] / 1000 for i in shown], [(i + 1) / len(values) for i in shown],
                          where="post", lw=1, color=color(name, order), label=name)
        axes.set_xscale("log")
        logarithmic(axes.xaxis)
        axes.set_title(pair, fontsize=8)
        axes.set_xlabel("ms from the arrival")
    grid[0][0].set_ylabel("requests answered")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 0.95))
    figure.tight_layout()
    save(figure, folder, "latencies")


KINDS = {"persistent": "#2ca02c", "guard": "#98df8a", "slice": "#bcbd22", "non-preemptible": "#d62728"}


def timeline(folder):
    with open(os.path.join(folder, "timeline.json")) as file:
        record = json.load(file)
    lanes = ["the request", "high priority active", "asked to yield, until gone", "training: sent, not yet over"]
    figure, axes = pyplot.subplots(figsize=(10, 2.6))

    def span(lane, begin, end, paint, **more):
        axes.barh(lane, end - begin, left=begin, height=0.6, color=paint, edgecolor="white", lw=0.4, **more)

    span(0, 0, record["latency_us"], HIGH)
    used = set()
    for each in record["events"]:
        if each["track"] == "high priority" and each["name"] == "active":
            span(1, each["begin"], each["end"], HIGH, alpha=0.5)
        elif each["name"] == "turnaround":
            span(2, each["begin"], each["end"], LOW)
        elif each["name"] == "asked to yield":
            axes.plot([each["begin"]], [2], marker="v", color="black", ms=4)
        elif each["kind"] in KINDS:
            span(3, each["begin"], each["end"], KINDS[each["kind"]], label=None if each["kind"] in used else each["kind"])
            used.add(each["kind"])
    axes.set_yticks(range(len(lanes)), lanes)
    axes.invert_yaxis()
    axes.set_xlim(-record["around_us"], record["latency_us"] + record["around_us"])
    axes.set_xlabel("microseconds from the arrival, as the host saw it")
    axes.set_title(f"One request of {record['pair']} under tally")
    if used:
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    save(figure, folder, "timeline")


def draw(folder, order):
    """Draws every picture for which `folder` has figures; returns the names of the files without their suffixes."""
    with open(os.path.join(folder, "cells.json")) as file:
        table = json.load(file)["cells"]
    with open(os.path.join(folder, "measurements.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    if not table:
        return []
    load = 0.3 if any(row["load"] == 0.3 for row in table) else table[0]["load"]
    overhead(table, order, folder, load)
    tradeoff(table, order, folder, load)
    latencies(rows, order, folder, load)
    names = ["overhead", "tradeoff", "latencies"]
    if os.path.exists(os.path.join(folder, "timeline.json")):
        timeline(folder)
        names.append("timeline")
    return names
