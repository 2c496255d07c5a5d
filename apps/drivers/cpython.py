"""CPython as an application: syntax trees of the standard library in memory."""

import ast
import random
import sys

import driver

modules = []
for name, text in driver.texts(int(sys.argv[1])):
    try:
        modules.append((name, ast.parse(text), text))
    except (SyntaxError, ValueError):
        pass


def relaunch(seed):
    count = 0
    for _, tree, _ in driver.pick(modules, 20, seed):
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                count += len(node.name)
    return driver.digest(count)


def use(seed):
    changed = 0
    chosen = random.Random(seed).sample(modules, min(10, len(modules)))
    for _, tree, _ in chosen:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.name = f"{node.name.rstrip('_0123456789')}_{seed % 10}"
                changed += 1
    name, _, text = min(chosen, key=lambda module: len(module[2]))
    compile(text, name, "exec")
    return driver.digest(changed, name)


driver.serve(relaunch, use)
