"""A mock service, as small as one writes it for a test of a guard: for systems_test.

usage: contract_service.py PORT

Prints `port N`. Its token does not say how long it lasts, but is a JWT of user u-1547. Its rows of
contracts say neither whose they are nor, of one, a type that is known. It counts what is spent:
POST /work?units=N is 200, or 429 with Retry-After in milliseconds.
"""

import base64
import http.server
import json
import sys
import threading
import time
import urllib.parse

CAPACITY, PERIOD_S = 10, 2


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


TOKEN = part({"alg": "none"}) + "." + part({"sub": "u-1547"}) + ".x"
CONTRACTS = {"data": [
    {"@id": "https://services.example.org/aux/ratelimit//contract/364", "id": 364,
     "policies": [{"capacity": CAPACITY, "samplingPeriod": f"PT{PERIOD_S}S",
                   "nanosBetweenRefills": PERIOD_S * 10**9 // CAPACITY}],
     "type": {"name": "REQUESTS", "suffix": "", "defaultPolicies": [
         {"capacity": 300, "samplingPeriod": "PT1M", "nanosBetweenRefills": 200000000}]}},
    {"id": 9, "policies": [{"capacity": 5}], "type": {"name": "DATA_TRANSFER"}}]}

lock = threading.Lock()
level, at = float(CAPACITY), time.monotonic()


def refill():
    global level, at
    now = time.monotonic()
    level, at = min(CAPACITY, level + (now - at) * CAPACITY / PERIOD_S), now


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value, headers=()):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers:
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        global level
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/oauth/token":
            return self.answer(200, {"access_token": TOKEN, "token_type": "bearer"})
        with lock:
            refill()
            if level >= 1:
                level -= 1
                return self.answer(200, {})
            wait_ms = int((1 - level) * PERIOD_S / CAPACITY * 1000) + 1
        self.answer(429, {}, [("Retry-After", str(wait_ms))])

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        if self.headers.get("Authorization") != "Bearer " + TOKEN:
            return self.answer(401, {})
        if path == "/aux/ratelimit/contract?userId=eq:u-1547":
            return self.answer(200, CONTRACTS)
        if path == "/aux/ratelimit/statistics/tokenCounts/u-1547":
            with lock:
                refill()
                return self.answer(200, {"data": {"REQUESTS": {f"PT{PERIOD_S}S": level},
                                                  "DATA_TRANSFER": {"PT1M": 5.0}}})
        self.answer(404, {})


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("port", server.server_address[1], flush=True)
server.serve_forever()
