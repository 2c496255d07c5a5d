"""Redis as an application: a server of our own on a local socket, driven in its own protocol."""

import os
import random
import socket
import subprocess
import sys
import time

import driver

PIPELINE = 500


class Client:
    """The least of a client: requests as arrays of bulk strings, replies of any kind."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def calls(self, requests):
        """Sends all requests, in portions, and returns all replies."""
        replies = []
        for start in range(0, len(requests), PIPELINE):
            portion = requests[start : start + PIPELINE]
            self.socket.sendall(b"".join(map(encode, portion)))
            replies += [self.reply() for _ in portion]
        return replies

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind in (b"+", b":"):
            return rest
        raise RuntimeError(line.decode(errors="replace").strip() or "the server closed the connection")


def encode(request):
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in request]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def connect(server, path):
    for _ in range(3000):
        if server.poll() is not None:
            raise SystemExit("redis-server ended at once")
        try:
            return Client(path)
        except OSError:
            time.sleep(0.01)
    raise SystemExit("redis-server does not answer")


path = os.path.join(os.environ["HOME"], "redis.sock")
server = subprocess.Popen(
    ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", os.environ["HOME"]],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
)
client = connect(server, path)
keys = []
requests = []
for name, text in driver.texts(int(sys.argv[1])):
    for number, start in enumerate(range(0, len(text), 600)):
        key = f"{name}:{number}"
        keys.append(key)
        requests.append(("SET", key, text[start : start + 600]))
        if number == 0:
            requests.append(("ZADD", "index", len(text), name))
    if len(requests) > 5000:
        client.calls(requests)
        requests.clear()
client.calls(requests)
requests.clear()


def relaunch(seed):
    chosen = [("GET", key) for key in driver.pick(keys, 2000, seed)]
    ranges = [("ZRANGE", "index", 0, 50), ("ZRANGE", "index", seed % 100, seed % 100 + 50)]
    return driver.digest(*client.calls(chosen + ranges))


def use(seed):
    rng = random.Random(seed)
    chosen = rng.sample(keys, 600)
    changes = [("SET", key, f"changed by {seed} " * rng.randrange(1, 40)) for key in chosen[:200]]
    changes += [("APPEND", key, f" appended by {seed}") for key in chosen[200:400]]
    return driver.digest(*client.calls(changes + [("GET", key) for key in chosen[400:]]))


driver.serve(relaunch, use)
server.kill()
server.wait()
