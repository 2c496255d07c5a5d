"""A shell session as an application: version control, scripts and searches over a tree of files.

`git.py BYTES`. Every command is a process of its own: what is kept in memory between them is files.
"""

import os
import pathlib
import random
import subprocess
import sys

import driver

COUNT = "while (<>) { $n{$1}++ while /(\\w+)/g } END { print scalar(keys %n), qq(\\n) }"
PARSE = "import ast, json, sys; print(json.dumps([len(ast.dump(ast.parse(open(f).read()))) for f in sys.argv[1:]]))"


def run(*command):
    """What a command prints."""
    done = subprocess.run(command, cwd=home, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-400:]!r}")
    return done.stdout


home = pathlib.Path(os.environ["HOME"]) / "tree"
home.mkdir()
names = []
run("git", "init", "-q")
for setting in ("user.name=a", "user.email=a@example.org", "gc.auto=0"):
    run("git", "config", *setting.split("="))
for name, text in driver.texts(int(sys.argv[1])):
    name = name.replace("/", "_").replace("#", "_")
    (home / name).write_text(text, encoding="utf-8")
    names.append(name)
    if len(names) % 50 == 0:
        run("git", "add", "-A")
        run("git", "commit", "-q", "-m", f"up to {name}")


def relaunch(seed):
    some = driver.pick(names, 20, seed)
    return driver.digest(
        run("git", "status", "--short"),
        run("git", "log", "--oneline", "-20"),
        run("git", "grep", "-c", random.Random(seed).choice(["class", "yield", "raise"])),
        run("perl", "-e", COUNT, *some),
    )


def use(seed):
    some = random.Random(seed).sample(names, 10)
    parsed = run(sys.executable, "-I", "-c", PARSE, *some)
    (home / some[0]).touch()
    return driver.digest(parsed, run("git", "diff", "--stat"), run("git", "log", "-3", "--", some[1]))


driver.serve(relaunch, use)
