"""The work of each thread around one request: a trace of the tally process, cut to that request."""
import dataclasses
import json
import os

from . import systems
from .session import Session

REQUESTS = 12


def record(arguments, pair, folder):
    """Writes timeline.json: in microseconds from the request's arrival, its end and the trace's events."""
    trace = os.path.join(folder, "trace.json")
    system = systems.BY_NAME["tally-block"]
    if arguments.device == "emulator":
        system = systems.emulated(system)
    server = dataclasses.replace(system.server,
                                 environment=system.server.environment + (("TALLY_TRACE", trace),))
    system = dataclasses.replace(system, server=server)
    with Session(arguments, pair, [system], arguments.gpus[0]) as session:
        period = session.service_time() * 5
        process, _ = session.parts(system)
        process.ask("train")
        arrivals = [1000 + i * period for i in range(REQUESTS if arguments.device == "cuda" else 3)]
        answer = process.ask("serve", arrivals[-1] * 100, 0, *arrivals)
        process.ask("stop", 0, 0)
        session.end()
    latency = answer["latency_us"]
    chosen = sorted(range(1, len(latency)), key=lambda i: latency[i])[(len(latency) - 1) // 2]
    zero = answer["begin"] / 1000 + arrivals[chosen] - arrivals[0]
    around = max(latency[chosen], 200)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    os.remove(trace)
    threads = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    cut = []
    for each in events:
        begin = each.get("ts", 0) - zero
        end = begin + each.get("dur", 0)
        if each["ph"] in "Xi" and end > -around and begin < latency[chosen] + around:
            cut.append({"track": threads.get(each["tid"], ""), "name": each["name"], "begin": begin, "end": end,
                        "kind": each.get("args", {}).get("kind", "")})
    with open(os.path.join(folder, "timeline.json"), "w") as file:
        json.dump({"pair": pair.name, "latency_us": latency[chosen], "around_us": around, "events": cut}, file)
