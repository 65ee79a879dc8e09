#!/usr/bin/env python3
"""Brings what happened on a chain into the ledger of a weir, each event once.

Reads one event a line, as JSON, in the order of their blocks:

    {"event":"0x5f3a-2","block":1230,"op":"lock","wallet":"acme","tokens":"10000","duration":18000}

`event` is what the chain calls it, such as a transaction and a number in it; `op` is one of OPERATIONS
below, and the other members are those of its route. Whatever goes wrong on the way, a lost answer, a
killed weir, a killed follower, the event is sent again: the ledger makes an event once, and answers it
again as it did. With --position the line that was done last is kept, so that a restart need not begin at
the first; without, it begins there, which takes longer and changes nothing.

    weir serve examples/compute/chain.yaml &
    tail -n +1 -f events.jsonl | examples/compute/follower.py --url http://127.0.0.1:8080

Exit codes: 0 at the end of the events, 1 if weir did not answer in --patience, 2 for a line that cannot
be read, 3 for an event that the ledger refuses. Only the standard library is used.
"""

import argparse
import http.client
import json
import os
import socket
import sys
import time
import urllib.parse

OPERATIONS = {
    "lock": ("POST", "/v1/compute/locks"),
    "add": ("POST", "/v1/compute/locks/add"),
    "unlock": ("POST", "/v1/compute/locks/unlock"),
    "auto": ("POST", "/v1/compute/locks/auto"),
    "register": ("POST", "/v1/compute/portals"),
    "unregister": ("POST", "/v1/compute/portals/unregister"),
    "split": ("POST", "/v1/compute/clusters/split"),
    "join": ("POST", "/v1/compute/workers"),
    "leave": ("POST", "/v1/compute/workers/leave"),
    "open_pool": ("POST", "/v1/compute/pools"),
    "stake": ("POST", "/v1/compute/pools/stake"),
    "exit": ("POST", "/v1/compute/pools/exit"),
    "withdraw": ("POST", "/v1/compute/pools/withdraw"),
    "parameter": ("PUT", "/v1/compute/parameters"),
}
FIRST_PAUSE = 0.05  # seconds; doubled after each failure
LONGEST_PAUSE = 5.0
TIMEOUT = 10.0


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Weir:
    """One connection at a time, and another one after any failure."""

    def __init__(self, url, token, patience):
        self.url = urllib.parse.urlsplit(url)
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = "Bearer " + token
        self.patience = patience
        self.connection = None

    def connect(self):
        if self.url.scheme == "unix":
            return UnixConnection(self.url.path)
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        return kind(self.url.hostname, self.url.port, timeout=TIMEOUT)

    def ask_once(self, method, path, body):
        if self.connection is None:
            self.connection = self.connect()
        self.connection.request(method, path, body, self.headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode()

    def ask(self, method, path, body):
        """Asks until there is an answer that is not about weir's own trouble."""
        give_up_at = time.monotonic() + self.patience
        pause = FIRST_PAUSE
        while True:
            try:
                status, text = self.ask_once(method, path, body)
                if status != 429 and status < 500:
                    return status, text
                why = f"it answered {status}"
            except (OSError, http.client.HTTPException) as failed:
                why = str(failed) or type(failed).__name__
            # The answer may be lost though the event was made: that is what its id is for.
            if self.connection is not None:
                self.connection.close()
                self.connection = None
            if time.monotonic() + pause > give_up_at:
                sys.exit(complain(f"weir does not answer: {why}; check that it runs, and start again", 1))
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def complain(text, code):
    print(f"follower: {text}", file=sys.stderr)
    return code


def read(number, line):
    """The route of an event, and the body for it."""
    try:
        event = json.loads(line)
        if not isinstance(event, dict):
            raise ValueError("it is no object")
        for member in ("event", "block", "op"):
            if member not in event:
                raise ValueError(f"'{member}' is missing")
        route = OPERATIONS.get(event.pop("op"))
        if route is None:
            raise ValueError("'op' is no operation; write one of " + ", ".join(OPERATIONS))
        return route, event["event"], json.dumps(event)
    except ValueError as wrong:
        sys.exit(complain(f"line {number}: {wrong}", 2))


def last_done(path):
    if not path or not os.path.exists(path):
        return 0
    with open(path, encoding="ascii") as kept:
        return int(kept.read() or 0)


def keep(path, number):
    """Whole or not at all, so that a kill leaves a number."""
    if not path:
        return
    with open(path + ".new", "w", encoding="ascii") as kept:
        kept.write(str(number))
    os.replace(path + ".new", path)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    flags.add_argument("--url", default="http://127.0.0.1:8080", help="of the weir with the ledger; also unix:/path")
    flags.add_argument("--token", default=os.environ.get("WEIR_TOKEN", ""), help="of the role admin")
    flags.add_argument("--position", default="", help="a file for the number of the last line done")
    flags.add_argument("--patience", type=float, default=3600.0, help="seconds to try an event for")
    flags.add_argument("--skip-refused", action="store_true", help="go on after an event that is refused")
    given = flags.parse_args()
    weir = Weir(given.url, given.token, given.patience)
    done = last_done(given.position)
    for number, line in enumerate(sys.stdin, 1):
        if number <= done or not line.strip():
            continue
        (method, path), event, body = read(number, line)
        status, text = weir.ask(method, path, body)
        if status != 200:
            code = complain(f"line {number}: event {event} is refused: {status} {text}", 3)
            if not given.skip_refused:
                sys.exit(code)
        else:
            print(f"{event} {text}", flush=True)
        keep(given.position, number)


if __name__ == "__main__":
    main()
