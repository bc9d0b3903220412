#!/usr/bin/env python3
"""A stand-in for llama-server, for ../serving_test.py: reads a prompt in PROMPT seconds, then streams a token each
TOKEN seconds. Its settings, all but the first two only under tally (TALLY_ARENA is set):

  STAND_IN_REFUSES=1     it ends at once
  STAND_IN_SILENT=1      it never answers /health
  STAND_IN_CRASH=1       it ends in the middle of an answer
  STAND_IN_HANG=1        its streams never end
  STAND_IN_WRONG=1       it writes other tokens
  STAND_IN_ENDS=1        it ends with status 9 when it has to end
"""
import argparse
import http.server
import json
import os
import sys
import threading
import time

PROMPT, TOKEN = 0.02, 0.005


def asked(what):
    return f"STAND_IN_{what}" in os.environ and "TALLY_ARENA" in os.environ


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = {"/health": {"status": "ok"}, "/v1/models": {"data": [{"meta": {"n_vocab": 1000}}]}}.get(self.path, {})
        body = json.dumps(body).encode()
        self.send_response(503 if "STAND_IN_SILENT" in os.environ else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, text):
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def event(self, **fields):
        """Sends an event in two pieces, as may happen on a network."""
        text = f"data: {json.dumps(fields)}\n\n"
        self.chunk(text[:9])
        self.chunk(text[9:])

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        with self.server.slots:
            time.sleep(PROMPT)
            for number in range(request["n_predict"]):
                time.sleep(TOKEN if not asked("HANG") else 1e6)
                if asked("CRASH") and number == 2:
                    print("crashed as asked", flush=True)
                    os._exit(7)
                self.event(content="x", tokens=[(sum(request["prompt"]) + number + asked("WRONG")) % 1000], stop=False)
        self.event(content="", tokens=[], stop=True)
        self.chunk("")
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128


def main():
    if "STAND_IN_REFUSES" in os.environ:
        sys.exit("refused as asked")
    parser = argparse.ArgumentParser()
    parser.add_argument("-m")
    parser.add_argument("-np", type=int)
    parser.add_argument("--port", type=int)
    options, _ = parser.parse_known_args()
    print(f"environment: { {name: value for name, value in sorted(os.environ.items()) if name.startswith(('TALLY', 'CUDA_MPS'))} }", flush=True)
    server = Server(("127.0.0.1", options.port), Handler)
    server.slots = threading.Semaphore(options.np)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(9 if asked("ENDS") else 0)


if __name__ == "__main__":
    main()
