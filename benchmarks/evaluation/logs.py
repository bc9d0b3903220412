"""The cost of a log of all kernels and calls: tally's own log (TALLY_TRACE) and CUPTI's activity records
(cupti_log), against the same program without a log."""
import json
import os
import struct

from colocation import mean, p99

from .results import KEY

WITHOUT = "tally-everything"
# A record of cupti_log.cpp: begin, end in nanoseconds of CLOCK_MONOTONIC; kind, name or call, correlation, stream or
# thread; grid, block; shared memory.
CUPTI_RECORD = struct.Struct("<QQIIIIIIIHHHHI")
ALLOWED = 0.01  # fraction of P99 and of best effort that a log may cost


def read_trace(path):
    """The begin of each event of the trace in nanoseconds, the mean bytes of an event, and the number of older
    events lost."""
    with open(path) as file:
        found = json.load(file)
    # an instant ("i") is a remark on other events
    begins = [each["ts"] * 1000 for each in found["traceEvents"] if each["ph"] in "Xb"]
    return begins, os.path.getsize(path) / max(len(begins), 1), found["otherData"]["lost_events"]


def read_cupti(path):
    with open(path, "rb") as file:
        data = file.read()
    begins = [record[0] for record in CUPTI_RECORD.iter_unpack(data[:len(data) // CUPTI_RECORD.size * CUPTI_RECORD.size])]
    return begins, CUPTI_RECORD.size, 0


def within(begins, lost, begin, end):
    """Records a second between two instants. If older records were lost, the time counts from the first record on."""
    if lost and begins:
        begin = max(begin, min(begins))
    return sum(begin <= each < end for each in begins) * 1e9 / (end - begin) if end > begin else 0.0


def counts(folder, systems, rows, group):
    """For each measurement of `group` under a system that writes a log into `folder`: records and bytes a second."""
    found = []
    for system in systems:
        path = os.path.join(folder, system.log)
        if not system.log or not os.path.exists(path):
            continue
        begins, size, lost = (read_trace if path.endswith(".json") else read_cupti)(path)
        for pair, repetition in group:
            for row in rows:
                if (row["pair"], row["system"], row["repetition"]) == (pair.name, system.name, repetition) and "begin" in row:
                    rate = within(begins, lost, row["begin"], row["end"])
                    found.append({**{each: row[each] for each in KEY}, "records_per_s": rate, "bytes_per_s": rate * size,
                                  "file_bytes": os.path.getsize(path), "lost": lost})
    return found


def read(folder):
    """The counts by measurement; of a repeated measurement the last."""
    path = os.path.join(folder, "logs.jsonl")
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        found = [json.loads(line) for line in file]
    return {tuple(row[each] for each in KEY): row for row in found}


def table(rows, logged):
    """A row for each cell with a log: P99 and best effort over the values without a log, of the same repetitions."""
    measured = {tuple(row[each] for each in KEY): row for row in rows if row["latency_us"]}
    cells = {}
    for key, row in measured.items():
        without = measured.get((key[0], WITHOUT, *key[2:]))
        if row["system"] in {each[1] for each in logged} and without:
            cells.setdefault(key[:4], []).append((row, without, logged.get(key)))
    found = []
    for key, cell in cells.items():
        latency, before = (sum((pair[i]["latency_us"] for pair in cell), []) for i in (0, 1))
        effort = [row["steps_per_s"] / without["steps_per_s"] for row, without, _ in cell]
        single = [p99(row["latency_us"]) / p99(without["latency_us"]) for row, without, _ in cell]
        counted = [log for _, _, log in cell if log]
        found.append({**dict(zip(KEY, key)), "repetitions": len(cell), "p99": p99(latency) / p99(before), "p99_low": min(single),
                      "p99_high": max(single), "best_effort": mean(effort), "best_effort_low": min(effort), "best_effort_high": max(effort),
                      **{name: mean([log[name] for log in counted]) if counted else None for name in ("records_per_s", "bytes_per_s")}})
    return found


def text(found):
    lines = [f"{'':34}{'system':14}{'load':>5} {'P99':>6} {'by repetition':>15} {'BE':>6} {'by repetition':>15} {'records/s':>10} {'MB/s':>7}"]
    for row in found:
        counted = f"{row['records_per_s']:10.0f} {row['bytes_per_s'] / 1e6:7.3f}" if row["records_per_s"] is not None else ""
        lines.append(f"{row['pair'][:33]:34}{row['system']:14}{row['load']:5.2f} {row['p99']:6.3f} {row['p99_low']:7.3f}-{row['p99_high']:<7.3f} "
                     f"{row['best_effort']:6.3f} {row['best_effort_low']:7.3f}-{row['best_effort_high']:<7.3f} {counted}")
    for system in dict.fromkeys(row["system"] for row in found):
        cells = [row for row in found if row["system"] == system]
        late, effort = mean([row["p99"] for row in cells]), mean([row["best_effort"] for row in cells])
        small = round(late, 4) <= 1 + ALLOWED and round(effort, 4) >= 1 - ALLOWED
        lines.append(f"{system}: P99 {late:.4f}, best effort {effort:.4f}, means of {len(cells)} cells; both cost at most {ALLOWED:.0%}: "
                     f"{'yes' if small else 'NO'}")
    return "\n".join(lines + [f"P99, BE: requests' P99 and best effort over those of {WITHOUT} in the same repetitions"])
