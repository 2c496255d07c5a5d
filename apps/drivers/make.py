"""A build as an application: a tree of C++ files that `make` brings up to date after every change.

No process stays between builds: what is kept in memory is files, those of the compiler among them.
"""

import os
import pathlib
import random
import subprocess
import sys

import driver

MAKEFILE = """CXXFLAGS = -O0 -g -pipe
OBJECTS = $(patsubst %.cc,%.o,$(sort $(wildcard part*.cc))) main.o
program: $(OBJECTS)
\tg++ -o $@ $(OBJECTS)
%.o: %.cc parts.h
\tg++ $(CXXFLAGS) -c -o $@ $<
"""

PART = """#include <map>
#include <regex>
#include <string>
#include <vector>
#include "parts.h"

static const std::vector<std::string> lines = {{
{lines}
}};

int part{number}(int seed) {{
  std::map<std::string, int> counts;
  for (const auto &line : lines) counts[line.substr(0, (seed + {change}) % 9)] += line.size();
  int sum = {change};
  for (const auto &[word, count] : counts) sum = sum * 31 + count;
  return std::regex_search(lines.front(), std::regex("{word}")) ? sum : sum + 1;
}}
"""


def write_part(number, change):
    quoted = ",\n".join('"' + line.replace("\\", "/").replace('"', "'") + '"' for line in parts[number])
    words = ["class", "import", "return", "self"]
    text = PART.format(number=number, change=change, lines=quoted, word=words[change % 4])
    (home / f"part{number}.cc").write_text(text, encoding="utf-8")


def build():
    """Runs make, and returns what it did and what the program says."""
    done = subprocess.run(["make"], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"make: {done.stderr[-400:]}")
    said = subprocess.run([home / "program"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    return done.stdout.count(" -c "), said


home = pathlib.Path(os.environ["HOME"]) / "tree"
home.mkdir()
count = int(sys.argv[1])
# Trigraphs and control characters would not come through a compiler as they are.
texts = [text.replace("?", ".") for _, text in driver.texts(count * 8000)]
lines = [line for text in texts for line in text.splitlines() if line.isprintable() and line]
parts = [lines[at * 150 : at * 150 + 150] for at in range(count)]
parts = [part for part in parts if part]
changes = [0] * len(parts)
for number in range(len(parts)):
    write_part(number, 0)
numbers = range(len(parts))
(home / "parts.h").write_text("".join(f"int part{number}(int seed);\n" for number in numbers))
prints = "".join(f'  std::printf("%d\\n", part{number}(argc));\n' for number in numbers)
(home / "main.cc").write_text(f'#include <cstdio>\n#include "parts.h"\nint main(int argc, char **) {{\n{prints}}}\n')
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
    found = {number: (home / f"part{number}.cc").read_text().count("import") for number in rng.sample(numbers, min(8, len(parts)))}
    change(rng.choice(numbers), seed % 1000)
    return driver.digest(found, *build())


driver.serve(relaunch, use)
