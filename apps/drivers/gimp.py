"""GIMP as an application: an image of several layers, looked at and changed by the commands of its Scheme console."""

import random
import sys

import console
import driver

END = "-- end of answer --"
SIDE = 512


class Console(console.Console):
    def is_end(self, line):
        return line.endswith(END)


shell = Console(["gimp-console", "--no-data", "--no-fonts", "--no-splash", "-i", "-b", "-"], END)


def ask(*forms):
    """Evaluates the forms and returns the numbers that they display."""
    lines = shell.ask(*forms, f'(begin (display "\\n{END}") (newline))')
    words = " ".join(lines).replace("(", " ").replace(")", " ").split()
    return [float(word) for word in words if word[0].isdigit()]


count = int(sys.argv[1])
ask(f"(define image (car (gimp-image-new {SIDE * 2} {SIDE * 2} RGB)))")
for number in range(count):
    ask(
        f"(define layer{number} (car (gimp-layer-new image {SIDE * 2} {SIDE * 2}"
        ' RGBA-IMAGE "layer" 100 LAYER-MODE-NORMAL)))',
        f"(gimp-image-insert-layer image layer{number} 0 0)",
        f"(plug-in-plasma RUN-NONINTERACTIVE image layer{number} {number + 1} 3.0)",
    )
corners = [(layer, x, y) for layer in range(count) for x in (0, SIDE) for y in (0, SIDE)]


def select(x, y):
    return f"(gimp-image-select-rectangle image CHANNEL-OP-REPLACE {x} {y} {SIDE} {SIDE})"


def relaunch(seed):
    seen = []
    for layer, x, y in driver.pick(corners, 6, seed):
        histogram = ask(select(x, y), f"(display (gimp-drawable-histogram layer{layer} HISTOGRAM-VALUE 0 1))")
        if SIDE * SIDE not in histogram:
            raise RuntimeError(f"the histogram of layer {layer} counts other pixels than are selected: {histogram}")
        seen.append(histogram)
    return driver.digest(seen)


def use(seed):
    layer, x, y = random.Random(seed).choice(corners)
    invert = f"(gimp-drawable-invert layer{layer} FALSE)"
    blur = f"(plug-in-gauss RUN-NONINTERACTIVE image layer{layer} 4 4 0)"
    look = f"(display (gimp-drawable-histogram layer{layer} HISTOGRAM-RED 0 1))"
    return driver.digest(ask(select(x, y), [invert, blur][seed % 2], look))


driver.serve(relaunch, use)
shell.close()
