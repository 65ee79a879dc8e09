"""A worker: asks weir for a place, calls the model it is given, and settles with what it used.

    python3 examples/pool/worker.py http://127.0.0.1:8081 http://127.0.0.1:8090 summary 20

The last word is how many jobs to do, eight at a time.
"""

import concurrent.futures
import json
import sys
import urllib.error
import urllib.request


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def run(weir, model_server, job_type, number):
    status, start = post(f"{weir}/v1/pool/acquire", {"type": job_type})
    if status != 200:
        return f"job {number}: {start.get('message') or start.get('detail')}"
    end = {"job": start["job"]}
    try:
        _, reply = post(f"{model_server}/v1/chat/completions", {
            "model": start["model"],
            "metadata": {"minute": start["windows"]["minute"]["begins"]},
            "messages": [{"role": "user", "content": f"Sum up page {number}."}]})
        usage = reply["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        end |= {"requests": 1, "input_tokens": usage["prompt_tokens"] - cached,
                "cached_tokens": cached, "output_tokens": usage["completion_tokens"]}
    except (OSError, KeyError):
        end |= {"failed": True}
    _, settled = post(f"{weir}/v1/pool/release", end)
    return f"job {number}: {start['model']}, waited {start['waited_ms']} ms, ${settled['cost']:.6f}"


if __name__ == "__main__":
    weir, model_server, job_type, jobs = sys.argv[1:]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for line in pool.map(lambda n: run(weir, model_server, job_type, n), range(int(jobs))):
            print(line, flush=True)
