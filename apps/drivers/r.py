"""R as an application: a table of the lines of source files, summed up, fitted and changed."""

import os
import pathlib
import random
import re
import sys

import console
import driver

END = "-- end of answer --"

path = pathlib.Path(os.environ["HOME"]) / "lines.tsv"
sizes = {}
with open(path, "w", encoding="utf-8") as table:
    for name, text in driver.texts(int(sys.argv[1])):
        for number, line in enumerate(text.splitlines()):
            word = re.search(r"[A-Za-z_]+", line)
            blanks = len(line) - len(line.lstrip())
            print(name, number, len(line), blanks, word.group() if word else "-", sep="\t", file=table)
        sizes[name] = len(text.splitlines())
session = console.Console(["R", "--no-save", "--no-echo", "--no-readline", "--vanilla"], END)


def ask(*lines):
    return session.ask(*lines, f"cat('{END}\\n')")


ask(
    f"lines <- read.table('{path}', sep='\\t', quote='', comment.char='',"
    " col.names=c('name', 'number', 'width', 'blanks', 'word'))",
    "rows <- split(seq_len(nrow(lines)), lines$name)",
    "lines$share <- lines$blanks / pmax(lines$width, 1)",
    "show <- function(names) { part <- lines[unlist(rows[names]), ];"
    " cat(nrow(part), sum(part$width), length(unique(part$word)), round(mean(part$share), 6), '\\n');"
    " print(summary(part$width)); print(head(part$word, 40)) }",
    "work <- function(names, word) { part <- lines[unlist(rows[names]), ];"
    " fit <- lm(width ~ blanks + number, data=part); print(round(coef(fit), 4));"
    " print(sort(table(part$word), decreasing=TRUE)[1:5]); cat(sum(lines$word == word), '\\n');"
    " lines$width[rows[[names[1]]]] <<- lines$width[rows[[names[1]]]] + 1L }",
)
names = sorted(sizes)


def vector(chosen):
    return "c(" + ", ".join(f"'{name}'" for name in chosen) + ")"


def relaunch(seed):
    chosen = driver.pick(names, 60, seed)
    answer = ask(f"show({vector(chosen)})")
    if int(answer[0].split()[0]) != sum(sizes[name] for name in chosen):
        raise RuntimeError("the table has other lines than it was made of")
    return driver.digest(*answer)


def use(seed):
    rng = random.Random(seed)
    words = ["def", "return", "self", "if", "import", "for"]
    return driver.digest(*ask(f"work({vector(rng.sample(names, min(30, len(names))))}, '{rng.choice(words)}')"))


driver.serve(relaunch, use)
session.close()
