"""A stub of a model server: answers as OpenAI's chat completions do, and counts.

    python3 examples/pool/model.py 8090

It refuses nothing: whoever asks must keep the limits. GET /counts tells how many requests
each model had in each minute that weir booked them in, which is told as metadata.
"""

import collections
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

counts = collections.Counter()
lock = threading.Lock()


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = " ".join(message["content"] for message in asked["messages"])
        with lock:
            counts[asked["model"], asked["metadata"]["minute"]] += 1
        self.answer({
            "model": asked["model"],
            "choices": [{"message": {"role": "assistant", "content": "It is so."}}],
            "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": 3,
                      "prompt_tokens_details": {"cached_tokens": 0}},
        })

    def do_GET(self):
        with lock:
            self.answer({f"{model} {minute}": n for (model, minute), n in sorted(counts.items())})

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
    server = ThreadingHTTPServer(("127.0.0.1", port), Model)
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
