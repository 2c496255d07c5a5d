"""A build as an application: a tree of C files that `make` brings up to date after every change.

`make.py FILES LINES`. No process stays between builds: what is kept in memory is files, those of the compiler among them.
"""

import os
import pathlib
import random
import subprocess
import sys

import driver

MAKEFILE = """CFLAGS = -O0 -g
OBJECTS = $(patsubst %.c,%.o,$(sort $(wildcard part*.c))) main.o
program: $(OBJECTS)
\tgcc -o $@ $(OBJECTS)
%.o: %.c parts.h
\tgcc $(CFLAGS) -c -o $@ $<
"""

PART = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parts.h"

static const char *const lines[] = {{
{lines}
}};

unsigned part{number}(unsigned seed) {{
  unsigned sum = {change} + seed;
  for (size_t at = 0; at < sizeof lines / sizeof *lines; at++)
    sum = sum * 31 + (strstr(lines[at], "{word}") ? (unsigned)strlen(lines[at]) : 1);
  return sum;
}}
"""


def write_part(number, change):
    quoted = ",\n".join('"' + line.replace("\\", "/").replace('"', "'") + '"' for line in parts[number])
    words = ["class", "import", "return", "self"]
    text = PART.format(number=number, change=change, lines=quoted, word=words[change % 4])
    (home / f"part{number}.c").write_text(text, encoding="utf-8")


def build():
    """Runs make, and returns what it did and what the program says."""
    done = subprocess.run(["make"], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"make: {done.stderr[-400:]}")
    said = subprocess.run([home / "program"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    return done.stdout.count(" -c "), said


home = pathlib.Path(os.environ["HOME"]) / "tree"
home.mkdir()
count, length = int(sys.argv[1]), int(sys.argv[2])
# Trigraphs and control characters would not come through a compiler as they are.
texts = (text.replace("?", ".") for _, text in driver.texts(count * length * 60))
lines = [line for text in texts for line in text.splitlines() if line.isprintable() and line]
parts = [lines[at * length : (at + 1) * length] for at in range(count)]
parts = [part for part in parts if part]
del lines
changes = [0] * len(parts)
for number in range(len(parts)):
    write_part(number, 0)
numbers = range(len(parts))
(home / "parts.h").write_text("".join(f"unsigned part{number}(unsigned seed);\n" for number in numbers))
prints = "".join(f'  printf("%u\\n", part{number}(1));\n' for number in numbers)
(home / "main.c").write_text(f'#include <stdio.h>\n#include "parts.h"\nint main(void) {{\n{prints}}}\n')
(home / "Makefile").write_text(MAKEFILE)
build()


def change(number, to):
    """Writes a part anew; make tells by the time whether it did."""
    changes[number] = to
    write_part(number, to)


def relaunch(seed):
    number = driver.pick(numbers, 3, seed)[seed % 3]
    before = changes[number]
    change(number, before + 1 + seed % 50)
    compiled, said = build()
    if compiled != 1:
        raise RuntimeError(f"make compiled {compiled} files, not the one that was changed")
    return driver.digest(said)


def use(seed):
    rng = random.Random(seed)
    found = [
        (home / f"part{number}.c").read_text().count("import") for number in rng.sample(numbers, min(8, len(parts)))
    ]
    change(rng.choice(numbers), seed % 1000)
    return driver.digest(found, *build())


driver.serve(relaunch, use)
