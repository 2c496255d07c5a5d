"""SQLite as an application: the sqlite3 shell with a database in memory, driven by its standard input."""

import random
import re
import subprocess
import sys

import driver

END = "-- end of answer --"

shell = subprocess.Popen(
    ["sqlite3", "-batch", ":memory:"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
)


def ask(*statements):
    """Runs the statements and returns what they print."""
    shell.stdin.write("\n".join(statements) + f"\n.print {END}\n")
    shell.stdin.flush()
    lines = []
    for line in shell.stdout:
        if line.rstrip("\n") == END:
            return lines
        lines.append(line)
    raise RuntimeError("the shell ended")


def quote(text):
    return "'" + text.replace("'", "''").replace("\0", " ") + "'"


ask(
    ".bail on",
    "CREATE TABLE document(id INTEGER PRIMARY KEY, name TEXT UNIQUE);",
    "CREATE TABLE line(id INTEGER PRIMARY KEY, document INTEGER, number INTEGER, text TEXT);",
    "CREATE VIRTUAL TABLE search USING fts5(text, content='line', content_rowid='id');",
)
names = []
words = set()
line_id = 0
for name, text in driver.texts(int(sys.argv[1])):
    names.append(name)
    statements = ["BEGIN;", f"INSERT INTO document VALUES({len(names)}, {quote(name)});"]
    rows = []
    for number, line in enumerate(text.splitlines()):
        line_id += 1
        rows.append(f"({line_id},{len(names)},{number},{quote(line)})")
        if len(rows) == 400:
            statements.append("INSERT INTO line VALUES" + ",\n".join(rows) + ";")
            rows.clear()
    if rows:
        statements.append("INSERT INTO line VALUES" + ",\n".join(rows) + ";")
    ask(*statements, "COMMIT;")
    if len(names) <= 100:
        words.update(re.findall(r"\b[a-z]{5,10}\b", text))
words = sorted(words)
ask("CREATE INDEX line_place ON line(document, number);", "INSERT INTO search(search) VALUES('rebuild');")


def relaunch(seed):
    statements = [
        f"SELECT text FROM line WHERE document = {names.index(name) + 1} ORDER BY number LIMIT 100;"
        for name in driver.pick(names, 20, seed)
    ]
    statements += [
        f"SELECT document, number, text FROM line WHERE id IN (SELECT rowid FROM search WHERE search MATCH '{word}' LIMIT 50);"
        for word in driver.pick(words, 10, seed)
    ]
    return driver.digest(*ask(*statements))


def use(seed):
    rng = random.Random(seed)
    statements = ["BEGIN;"]
    for _ in range(50):
        row = rng.randrange(1, line_id + 1)
        statements.append(f"UPDATE line SET text = text || ' -- edited {seed}' WHERE id = {row};")
        statements.append(f"INSERT INTO line(document, number, text) VALUES(0, {row}, 'a new line of {seed}');")
    statements.append("COMMIT;")
    statements += [
        f"SELECT count(*) FROM search WHERE search MATCH '{word}';" for word in rng.sample(words, min(8, len(words)))
    ]
    statements.append(f"SELECT count(*), sum(length(text)) FROM line WHERE document = {rng.randrange(len(names)) + 1};")
    return driver.digest(*ask(*statements))


driver.serve(relaunch, use)
shell.stdin.close()
shell.wait()
