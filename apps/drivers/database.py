"""A database server as an application: PostgreSQL or MariaDB with source lines, driven by its own client.

`database.py postgresql|mariadb AMOUNT CACHE_MIB`
"""

import os
import pathlib
import pwd
import random
import re
import subprocess
import sys
import time

import console
import driver

END = "-- end of answer --"
home = pathlib.Path(os.environ["HOME"])
data = home / "data"
kind, amount, cache = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def quiet(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {done.stdout.decode(errors='replace')[-500:]}")


def serve(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def postgresql():
    """Starts the server and returns it with the command of its client."""
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))[-1].parent
    data.mkdir()
    prefix = []
    if os.geteuid() == 0:
        # The server refuses to run as root. A System V segment that it makes goes with its namespace.
        user = pwd.getpwnam("postgres")
        os.chown(data, user.pw_uid, user.pw_gid)
        ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        prefix = ["unshare", "--ipc", "setpriv", *ids, "--"]
    quiet([*prefix, str(programs / "initdb"), "-D", str(data), "-U", "app", "-A", "trust", "-E", "UTF8", "-N"], cwd=data)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": data,
        "shared_buffers": f"{cache}MB",
        "fsync": "off",
        "autovacuum": "off",
        "max_parallel_workers_per_gather": "0",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    server = serve([*prefix, str(programs / "postgres"), "-D", str(data), *options])
    # The process must not change its number: both wrappers run the server in their place.
    return server, ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(data), "-U", "app", "postgres"]


def mariadb():
    """Starts the server and returns it with the command of its client."""
    socket = home / "mariadb.sock"
    user = [f"--user={pwd.getpwuid(os.geteuid()).pw_name}"]
    install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
    quiet([*install, "--skip-test-db", *user])
    options = [
        "--no-defaults",
        f"--datadir={data}",
        f"--socket={socket}",
        f"--pid-file={home}/mariadb.pid",
        "--skip-networking",
        "--skip-log-bin",
        f"--innodb-buffer-pool-size={cache}M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--log-error=/dev/null",
    ]
    server = serve(["/usr/sbin/mariadbd", *options, *user])
    quiet_client = ["--no-defaults", "-u", "root", f"--socket={socket}", "--default-character-set=utf8mb4"]
    return server, ["mariadb", *quiet_client, "-N", "-B", "--unbuffered", "mysql"]


server, client = {"postgresql": postgresql, "mariadb": mariadb}[kind]()
for _ in range(600):
    ready = subprocess.run(client, input=b"SELECT 1;\n", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if ready.stdout.strip() == b"1":
        break
    if server.poll() is not None:
        raise SystemExit(f"the server ended with {server.returncode}")
    time.sleep(0.1)
else:
    raise SystemExit("the server does not answer")
shell = console.Console(client, END)


def ask(*statements):
    return shell.ask(*statements, f"SELECT '{END}';")


def quote(text):
    """A string constant; in MariaDB a backslash would be an escape."""
    return "'" + text.replace("'", "''").replace("\0", " ").replace("\\", "/") + "'"


ask(
    "CREATE TABLE document(id INTEGER PRIMARY KEY, name VARCHAR(200), line_count INTEGER);",
    "CREATE TABLE line(document INTEGER, number INTEGER, word VARCHAR(40), text TEXT, PRIMARY KEY(document, number));",
)
documents = []
words = set()
for name, text in driver.texts(amount):
    lines = text.splitlines()
    number = len(documents)
    documents.append((number, len(lines)))
    rows = []
    for at, line in enumerate(lines):
        found = re.search(r"\b[a-z]{4,12}\b", line)
        word = found.group() if found else ""
        words.add(word)
        rows.append(f"({number},{at},{quote(word)},{quote(line)})")
    inserts = ["INSERT INTO line VALUES" + ",\n".join(rows[at : at + 500]) + ";" for at in range(0, len(rows), 500)]
    ask("BEGIN;", f"INSERT INTO document VALUES({number},{quote(name)},{len(lines)});", *inserts, "COMMIT;")
words = sorted(words - {""})
ask("CREATE INDEX line_word ON line(word);", "ANALYZE line;" if kind == "postgresql" else "ANALYZE TABLE line;")


def relaunch(seed):
    chosen = driver.pick(documents, 30, seed)
    places = [
        f"SELECT text FROM line WHERE document = {number} AND number < 60 ORDER BY number;" for number, _ in chosen
    ]
    counts = [f"SELECT count(*) FROM line WHERE word = '{word}';" for word in driver.pick(words, 20, seed)]
    sums = [f"SELECT line_count FROM document WHERE id = {number};" for number, _ in chosen]
    if ask(*sums) != [str(count) for _, count in chosen]:
        raise RuntimeError("documents have other lengths than were stored")
    return driver.digest(*ask(*places, *counts))


def use(seed):
    rng = random.Random(seed)
    changes = ["BEGIN;"]
    for number, count in rng.sample(documents, min(40, len(documents))):
        at = rng.randrange(max(count, 1))
        changes.append(f"UPDATE line SET text = 'edited by {seed}' WHERE document = {number} AND number = {at};")
    searches = [
        f"SELECT document, number FROM line WHERE word = '{word}' ORDER BY 1, 2 LIMIT 40;" for word in rng.sample(words, 6)
    ]
    return driver.digest(*ask(*changes, "COMMIT;", *searches))


driver.serve(relaunch, use)
shell.close()
server.kill()
server.wait()
