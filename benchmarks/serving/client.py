"""Requests to llama-server by HTTP, many at once: `POST /completion` with `stream`, whose tokens come as server-sent
events. While requests are in flight, the client only keeps the received bytes and their instants. It parses the
bytes after all requests have ended, so that the parsing of one request does not delay another request's instants.
Instants are nanoseconds of CLOCK_MONOTONIC.
"""
import asyncio
import dataclasses
import gc
import hashlib
import json
import random
import socket
import time

HOST = "127.0.0.1"


class Wrong(Exception):
    """A request has no complete answer; the text names the request and the reason."""


@dataclasses.dataclass
class Answer:
    """The answer to a request: its intended arrival, the time at which it was sent, and each token with its instant.
    `trouble`: the reason why the answer is incomplete."""
    arrival: int
    sent: int
    tokens: list
    times: list
    end: int
    trouble: str = ""


class Work:
    """The requests of a load; equal seeds give equal requests. Prompts consist of random tokens. The logarithms of
    their lengths are spread evenly between those of `shortest` and `longest`."""
    SPECIAL = 259  # the first tokens of weights.py's vocabulary: control tokens and bytes

    def __init__(self, vocabulary, shortest, longest, tokens):
        if vocabulary <= self.SPECIAL:
            raise ValueError(f"a vocabulary of {vocabulary} tokens has none for prompts")
        self.vocabulary, self.shortest, self.longest, self.tokens = vocabulary, shortest, longest, tokens

    def prompt(self, seed, length=None):
        source = random.Random(seed)
        length = length or round(self.shortest * (self.longest / self.shortest) ** source.random())
        return [source.randrange(self.SPECIAL, self.vocabulary) for _ in range(length)]

    def request(self, seed, length=None, **more):
        return {"prompt": self.prompt(seed, length), "n_predict": self.tokens, "stream": True, "temperature": 0, "ignore_eos": True,
                "cache_prompt": False, "return_tokens": True, "samplers": ["temperature"], **more}


def head(port, body):
    return (f"POST /completion HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n").encode()


class Stream(asyncio.Protocol):
    """One connection: sends the request, and keeps the received bytes with their instants until the server closes
    it."""

    def __init__(self, sent, over):
        self.to_send, self.over, self.pieces = sent, over, []

    def connection_made(self, transport):
        self.socket = transport.get_extra_info("socket")
        transport.write(self.to_send)

    def data_received(self, data):
        self.pieces.append((time.monotonic_ns(), data))
        # By Nagle's algorithm the server holds a small piece back until the client acknowledges the piece before, so
        # the client acknowledges at once (RFC 1122, 4.2.3.2).
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def connection_lost(self, problem):
        if not self.over.done():
            self.over.set_result(problem)


def unchunked(pieces):
    """Status of a response and the parts of its body, with the instants: [(instant, bytes)]. The body is chunked or
    plain."""
    data, ends = b"", []  # ends: number of bytes received at an instant
    for at, piece in pieces:
        data += piece
        ends.append((len(data), at))
    header, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return 0, []
    status = int(header.split(None, 2)[1])
    begin, parts, which = len(header) + 4, [], 0

    def instant(end):
        nonlocal which
        while which < len(ends) - 1 and ends[which][0] < end:
            which += 1
        return ends[which][1]
    if b"transfer-encoding: chunked" not in header.lower():
        return status, [(instant(len(data)), body)]
    while True:
        line = data.find(b"\r\n", begin)
        if line < 0:
            return status, parts
        size = int(data[begin:line].split(b";")[0], 16)
        begin = line + 2 + size
        if size == 0 or begin > len(data):
            return status, parts
        parts.append((instant(begin), data[line + 2:begin]))
        begin += 2


def events(parts):
    """The JSON of each server-sent event, and the instant at which it was complete."""
    kept = b""
    for at, part in parts:
        kept += part
        while b"\n\n" in kept:
            event, _, kept = kept.partition(b"\n\n")
            for line in event.splitlines():
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    yield at, json.loads(line[6:])


def read(arrival, sent, pieces, problem, wanted):
    """Parses the received `pieces` into an answer."""
    answer = Answer(arrival, sent, [], [], pieces[-1][0] if pieces else sent)
    status, parts = unchunked(pieces)
    if problem or not status:
        answer.trouble = f"the connection ended: {problem or 'no answer'}"
        return answer
    if status != 200:
        answer.trouble = f"status {status}: {b''.join(part for _, part in parts).decode(errors='replace')[:200]}"
        return answer
    stopped = False
    for at, event in events(parts):
        if "error" in event:
            answer.trouble = f"error: {event['error']}"
            return answer
        stopped = stopped or event.get("stop", False)
        if not event.get("stop"):
            answer.tokens += event["tokens"]
            answer.times += [at] * len(event["tokens"])
    if not stopped:
        answer.trouble = f"the stream broke off behind {len(answer.tokens)} tokens"
    elif len(answer.tokens) != wanted:
        answer.trouble = f"{len(answer.tokens)} tokens came of {wanted}"
    return answer


async def send(port, body, arrival, wanted):
    """Sends a request now. Returns a function that parses the answer; the caller calls it after all requests have
    ended."""
    over = asyncio.get_running_loop().create_future()
    sent = time.monotonic_ns()
    try:
        _, stream = await asyncio.get_running_loop().create_connection(lambda: Stream(head(port, body) + body, over), HOST, port)
    except OSError as refused:
        return lambda why=str(refused): Answer(arrival or sent, sent, [], [], sent, why)
    problem = await over
    return lambda: read(arrival or sent, sent, stream.pieces, problem, wanted)


def encoded(request):
    return json.dumps(request).encode()


def finished(pending):
    """The answers, in order; raises an error if one is incomplete."""
    answers = [each() for each in pending]
    wrong = [f"request {number}: {answer.trouble}" for number, answer in enumerate(answers, 1) if answer.trouble]
    if wrong:
        raise Wrong(f"{len(wrong)} of {len(answers)} requests have no whole answer; {wrong[0]}")
    return answers


def run(coroutine, limit):
    """The coroutine's result; raises an error after `limit` seconds. Garbage collection is off meanwhile."""
    async def limited():
        return await asyncio.wait_for(coroutine, limit)
    gc.collect()
    gc.disable()
    try:
        return asyncio.run(limited())
    except asyncio.TimeoutError:
        raise Wrong(f"no whole answer after {limit:.0f} s") from None
    finally:
        gc.enable()


def one(port, work, seed, limit, length=None, **more):
    """A single request."""
    body = encoded(work.request(seed, length, **more))
    return finished([run(send(port, body, None, work.tokens), limit)])[0]


def open_loop(port, work, arrivals, seed, limit):
    """Sends a request at each of the arrivals, microseconds from now, whatever became of earlier requests."""
    bodies = [encoded(work.request(f"{seed} {number}")) for number in range(len(arrivals))]

    async def all_of_them():
        zero, tasks = time.monotonic_ns(), []
        for arrival, body in zip(arrivals, bodies):
            at = zero + int(arrival * 1e3)
            wait = (at - time.monotonic_ns()) / 1e9
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(send(port, body, at, work.tokens)))
        return await asyncio.gather(*tasks)
    return finished(run(all_of_them(), limit))


def closed_loop(port, work, sequences, seconds, least, seed, limit):
    """Runs `sequences` clients, each with a request at a time, for `seconds` and at least `least` requests. Returns
    the answers, and the instants between which clients began new requests."""
    begun = 0

    async def client(until, pending):
        nonlocal begun
        while time.monotonic_ns() < until or begun < least:
            begun += 1
            pending.append(await send(port, encoded(work.request(f"{seed} {begun}")), None, work.tokens))

    async def all_of_them():
        begin, pending = time.monotonic_ns(), []
        until = begin + int(seconds * 1e9)
        await asyncio.gather(*(client(until, pending) for _ in range(sequences)))
        return pending, begin, until
    pending, begin, until = run(all_of_them(), limit)
    answers = finished(pending)
    return answers, begin, max(until, max(each.sent for each in answers))


def capacity(answers, begin, end, tokens):
    """Requests a second of a closed loop: the tokens that came between the two instants, over the tokens of a
    request. The two errors cancel out: at `end` the server has read the prompts of requests without all tokens, and
    at `begin` it had not."""
    if end <= begin:
        raise ValueError("a closed loop that took no time")
    came = sum(begin <= at <= end for answer in answers for at in answer.times)
    return came / tokens / ((end - begin) / 1e9)


def digest(tokens):
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]


def figures(answers):
    """The results of an open loop. Microseconds: to the first token, from the intended arrival; between successive
    tokens. `active`: the fraction of the time with a request in flight, from the first arrival to the last end."""
    begin, end = min(each.arrival for each in answers), max(each.end for each in answers)
    busy, reached = 0, begin
    for each in sorted(answers, key=lambda each: each.arrival):
        busy += max(0, each.end - max(reached, each.arrival))
        reached = max(reached, each.end)
    count = sum(len(each.tokens) for each in answers)
    return {"begin": begin, "end": end, "active": busy / (end - begin), "seconds": (end - begin) / 1e9, "tokens": count,
            "tokens_per_s": count / ((end - begin) / 1e9), "service_us_per_token": busy / 1e3 / count,
            "ttft_us": [round((each.times[0] - each.arrival) / 1e3, 1) for each in answers],
            "tpot_us": [round((later - earlier) / 1e3, 1) for each in answers for earlier, later in zip(each.times, each.times[1:])],
            "late_us": round(max((each.sent - each.arrival) / 1e3 for each in answers), 1),
            "answers": [digest(each.tokens) for each in answers]}
