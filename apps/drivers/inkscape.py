"""Inkscape as an application: a drawing of many objects, measured, moved and painted by the actions of its shell."""

import math
import os
import pathlib
import random
import sys

import console
import driver

SIDE = 2000
END = "Inkscape 1."

home = pathlib.Path(os.environ["HOME"])
count = int(sys.argv[1])


def drawing():
    """Bars, curves and captions, and where each bar is."""
    rng = random.Random("drawing")
    words = [word for _, text in driver.texts(100_000) for word in text.split() if word.isalpha()]
    parts = []
    places = {}
    for number in range(count):
        x, y = rng.randrange(SIDE), rng.randrange(SIDE)
        colour = f"#{rng.randrange(1 << 24):06x}"
        places[f"bar{number}"] = (x, y)
        parts.append(f'<rect id="bar{number}" x="{x}" y="{y}" width="{rng.randrange(5, 60)}" height="9" fill="{colour}"/>')
        curve = " ".join(
            f"{x + 8 * at:.1f},{y + 20 * math.sin(at + number):.2f}" for at in range(rng.randrange(10, 40))
        )
        parts.append(f'<path id="curve{number}" d="M {curve}" fill="none" stroke="{colour}" opacity="0.7"/>')
        if number % 4 == 0:
            parts.append(f'<text x="{x}" y="{y}" font-size="9">{words[number % len(words)]}</text>')
    (home / "drawing.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">'
        + "\n".join(parts)
        + "</svg>"
    )
    return places


class Shell(console.Console):
    def is_end(self, line):
        return END in line


places = drawing()
shell = Shell(["inkscape", "--shell"], END)


def do(*actions):
    """Runs the actions; the program's version is the end of what they print."""
    lines = shell.ask("; ".join(actions), "inkscape-version")
    return [line.removeprefix("> ") for line in lines]


do(f"file-open:{home}/drawing.svg")


def numbers(lines):
    return [float(value) for line in lines for value in line.split(",") if value and value[0] in "-0123456789"]


def paint(x, y):
    picture = home / "part.png"
    picture.unlink(missing_ok=True)
    do(f"export-area:{x}:{y}:{x + 300}:{y + 200}", f"export-filename:{picture}", "export-do")
    return picture.read_bytes()


def relaunch(seed):
    chosen = driver.pick(sorted(places), 40, seed)
    found = []
    for name in chosen:
        found += numbers(do("select-clear", f"select-by-id:{name}", "query-x", "query-y"))
    wanted = [value for name in chosen for value in places[name]]
    if len(found) != len(wanted) or max(abs(a - b) for a, b in zip(found, wanted)) > 0.1:
        raise RuntimeError("objects are not where they were drawn")
    return driver.digest(wanted, paint(100, 100), paint(seed % 1000, 300))


def use(seed):
    rng = random.Random(seed)
    for name in rng.sample(sorted(places), 20):
        by = (rng.randrange(-5, 6), rng.randrange(-5, 6))
        do("select-clear", f"select-by-id:{name}", f"transform-translate:{by[0]},{by[1]}")
        places[name] = (places[name][0] + by[0], places[name][1] + by[1])
    return driver.digest(paint(rng.randrange(1000), rng.randrange(1000)))


driver.serve(relaunch, use)
shell.close()
