"""A service to follow, for tests: answers as the first word of a file says.

usage: service.py MODE_FILE PORT [CERTIFICATE_AND_KEY]

Prints `port N`, then a line for each request: method, target, Authorization, body.
"""

import http.server
import json
import ssl
import sys
import threading
import time

mode_file, port = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()
granted = 0


def policies(capacity):
    return {"data": [{"id": 1, "userId": "u 1", "type": {"name": "PROCESSING_UNITS"}, "policies": [
        {"capacity": capacity, "samplingPeriod": "PT1H", "niceSamplindPeriod": "1 hour"}]}]}


def counts(left):
    return {"data": {"PROCESSING_UNITS": {"PT1H": left}}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def grant(self, lasts):
        global granted
        with lock:
            granted += 1
            token = f"token-{granted}"
        self.answer(200, json.dumps({"access_token": token, "expires_in": lasts}).encode())

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        authorization = self.headers.get("Authorization", "-")
        print(self.command, self.path, authorization, body, flush=True)
        with open(mode_file) as file:
            mode, *words = file.read().split()
        if mode == "slow":
            time.sleep(600)
        elif mode == "drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(6000):
                self.wfile.write(b"x")
                time.sleep(0.1)
        elif mode == "status":
            self.answer(int(words[0]), b"no",
                        [tuple(word.replace("_", " ").split("=", 1)) for word in words[1:]])
        elif mode == "garbage":
            self.answer(200, b"<html>\xff\x00")
        elif mode == "huge":
            self.answer(200, b" " * 10_000_000)
        elif self.path == "/token":
            self.grant(3600)
        elif mode == "revoked" and authorization == f"Bearer {words[0]}":
            self.answer(401, b"no")
        elif self.path.startswith("/aux/ratelimit/contract"):
            self.answer(200, json.dumps(policies(200 if mode == "other" else 100)).encode())
        else:
            self.answer(200, json.dumps(counts(60.5)).encode())

    do_GET = do_POST = do_PUT = handle_one


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # clients that hang up are what some tests are about
        pass


server = Server(("127.0.0.1", port), Handler)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print("port", server.server_address[1], flush=True)
server.serve_forever()
