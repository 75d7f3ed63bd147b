"""An HTTP client that backs off correctly. Standard library only, Python 3.9 or later.

    python3 tollgate_client.py URL [--app APP] [--requests N]

- Refusals (429, 503) are repeated after Retry-After, plus jitter. A 429 without Retry-After can never succeed and is not repeated.
- The RateLimit header is honoured: with no tokens left, the next request waits instead of being refused.
- A retry budget limits repeated requests to a tenth of all requests, so that clients do not multiply an overload.
"""
import argparse
import random
import re
import threading
import time
import urllib.error
import urllib.request

# Methods that may be repeated after a failure of the connection. A refusal was not processed: any method may be repeated.
IDEMPOTENT = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}


class RetryBudget:
    """Every request adds a tenth of a retry, at most `most`. A retry takes one."""

    def __init__(self, share=0.1, most=10.0):
        self.share, self.most, self.left = share, most, most
        self.lock = threading.Lock()

    def request_sent(self):
        with self.lock:
            self.left = min(self.left + self.share, self.most)

    def take(self):
        with self.lock:
            if self.left < 1:
                return False
            self.left -= 1
            return True


class Client:
    def __init__(self, headers=None, attempts=5, longest_wait=60.0, budget=None):
        self.headers = headers or {}
        self.attempts = attempts
        self.longest_wait = longest_wait
        self.budget = budget or RetryBudget()
        self.not_before = 0.0  # The RateLimit header of the last response: no request before this time.
        self.retries = 0

    def request(self, method, url, body=None):
        """Returns (status, body). Raises OSError if there was no response."""
        self.budget.request_sent()
        for attempt in range(1, self.attempts + 1):
            pause = self.not_before - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            status, headers, data = self._send(method, url, body)
            wait = self._wait_before_retry(method, status, headers, attempt)
            if wait is None or attempt == self.attempts or wait > self.longest_wait or not self.budget.take():
                if status == 0:
                    raise OSError(f"{url}: no response")
                return status, data
            self.retries += 1
            time.sleep(wait)

    def _send(self, method, url, body):
        request = urllib.request.Request(url, data=body, headers=self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                status, headers, data = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            status, headers, data = error.code, error.headers, error.read()
        except OSError:
            return 0, {}, b""
        self._pace(headers.get("RateLimit"))
        return status, headers, data

    def _wait_before_retry(self, method, status, headers, attempt):
        """Seconds, or None if a retry is useless or not safe."""
        backoff = min(2.0 ** (attempt - 1), 30.0)
        if status in (429, 503):
            after = headers.get("Retry-After", "")
            if after.isdigit():
                return int(after) + random.uniform(0, max(int(after), 1) / 2)
            return None if status == 429 else random.uniform(0, backoff)
        if status == 0 and method in IDEMPOTENT:
            return random.uniform(0, backoff)
        return None

    def _pace(self, header):
        """RateLimit: "name";r=3;t=5 means three tokens left, full again in five seconds. Several limits are separated by commas."""
        if header is None:
            return
        for remaining, seconds in re.findall(r";r=(\d+);t=(\d+)", header):
            if int(remaining) == 0:
                self.not_before = time.monotonic() + min(int(seconds), 1) * random.uniform(1, 1.5)


def main():
    parser = argparse.ArgumentParser(description="Sends requests one after the other and backs off when refused.")
    parser.add_argument("url")
    parser.add_argument("--app", help="sent as X-App-Id; only for gateways that trust this machine")
    parser.add_argument("--requests", type=int, default=1)
    options = parser.parse_args()
    client = Client({"X-App-Id": options.app} if options.app else {})
    answers = {}
    for _ in range(options.requests):
        status, _body = client.request("GET", options.url)
        answers[status] = answers.get(status, 0) + 1
    counts = ", ".join(f"{count} x {status}" for status, count in sorted(answers.items()))
    print(f"{counts}; {client.retries} retries")


if __name__ == "__main__":
    main()
