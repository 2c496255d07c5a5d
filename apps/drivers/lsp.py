"""A language server as an application: files of a project open in it, driven by the Language Server Protocol.

`lsp.py python|cpp AMOUNT COMMAND...`: opens AMOUNT files of the standard library of the language.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import sysconfig

import driver


class Server:
    """A server process and its pipes: JSON messages with a header that gives their length."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.out = self.process.stdout
        self.inp = self.process.stdin
        self.buffered = open(self.out.fileno(), "rb", closefd=False)
        self.number = 0

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        data = b"Content-Length: %d\r\n\r\n" % len(body) + body
        while data:
            data = data[self.inp.write(data) :]

    def notify(self, method, **params):
        self.send({"method": method, "params": params})

    def call(self, method, **params):
        """Calls a method and returns its result; requests of the server are answered with nothing."""
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, "params": params})
        while True:
            answer = self.receive()
            if "method" in answer:
                if "id" in answer:
                    wanted = answer.get("params", {}).get("items")
                    self.send({"id": answer["id"], "result": [None for _ in wanted] if wanted else None})
            elif answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        length = 0
        while line := self.buffered.readline():
            if not line.strip():
                return json.loads(self.buffered.read(length))
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        raise RuntimeError("the language server ended")


language, amount, *command = sys.argv[1:]
root = pathlib.Path({"python": sysconfig.get_paths()["stdlib"], "cpp": "/usr/include/c++"}[language]).resolve()
comment, pattern, ending = {"python": ("#", "*.py", ".py"), "cpp": ("//", "*", ".cc")}[language]
paths = sorted(path for path in root.rglob(pattern) if path.is_file() and 3000 < path.stat().st_size < 60000)
paths = [path for path in paths if not {"test", "tests", "dist-packages", "ext", "pstl"} & set(path.parts)]
random.Random("files").shuffle(paths)
paths = paths[: int(amount)]
if not paths:
    raise SystemExit(f"no files {pattern} in {root}")
server = Server(command)
uri = root.as_uri()
symbols = {"hierarchicalDocumentSymbolSupport": True}
server.call(
    "initialize",
    processId=None,
    rootUri=uri,
    workspaceFolders=[{"uri": uri, "name": "root"}],
    capabilities={"textDocument": {"documentSymbol": symbols, "hover": {"contentFormat": ["plaintext"]}}},
)
server.notify("initialized")


class Document:
    """An open file, and the places of names in it that can be asked for."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.id = {"uri": path.as_uri()}
        self.version = 1
        self.places = []
        for number, line in enumerate(self.text.splitlines()):
            if found := re.match(r"\s*(?:def|class|function|template|return|export|using|typedef|struct)\s+(\w+)", line):
                self.places.append({"line": number, "character": found.start(1) + 1})
        document = {**self.id, "languageId": language, "version": 1, "text": self.text}
        server.notify("textDocument/didOpen", textDocument=document)
        self.symbols()

    def symbols(self):
        def names(entries):
            for entry in entries or []:
                yield entry["name"]
                yield from names(entry.get("children"))

        return list(names(server.call("textDocument/documentSymbol", textDocument=self.id)))

    def hover(self, place):
        found = server.call("textDocument/hover", textDocument=self.id, position=place)
        return json.dumps(found["contents"]) if found else ""

    def change(self, text):
        self.version += 1
        self.text = text
        document = {**self.id, "version": self.version}
        server.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])




def opened():
    """The files in which there are names to ask for; a part of a header by itself may be none that the server can read."""
    for path in paths:
        try:
            document = Document(path)
        except RuntimeError:
            continue
        if document.places:
            yield document


documents = list(opened())
# What is typed is typed into a file of one's own: to change a library would have everything examined again.
own = pathlib.Path(os.environ["HOME"]) / f"own{ending}"
own.write_text(documents[0].text, encoding="utf-8")
own = Document(own)
for document in documents:
    document.hover(document.places[0])


def relaunch(seed):
    answers = []
    for document in driver.pick(documents, 5, seed):
        answers.append(document.symbols())
        answers += [document.hover(place) for place in driver.pick(document.places, 3, seed)]
    if not any(answers):
        raise RuntimeError("the server knows nothing of its files")
    return driver.digest(answers)


def use(seed):
    rng = random.Random(seed)
    own.change(f"{own.text.rstrip()}\n{comment} edited by {seed}\n")
    document = rng.choice(documents)
    place = rng.choice(document.places)
    found = server.call("textDocument/definition", textDocument=document.id, position=place) or []
    return driver.digest(own.symbols(), document.hover(place), json.dumps(found, sort_keys=True))


driver.serve(relaunch, use)
server.process.kill()
server.process.wait()
