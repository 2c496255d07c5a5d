"""Headless Chromium as an application: local pages in tabs, driven by the DevTools protocol over a pipe."""

import html
import json
import os
import pathlib
import random
import subprocess
import sys

import driver

TABS = 3
LINES_PER_SECTION = 80
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--no-zygote",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--renderer-process-limit=3",
    "--window-size=800,600",
    "--remote-debugging-pipe",
]

SCRIPT = """
const sections = [...document.querySelectorAll('section')];
function show(numbers) {
  const seen = numbers.map((n) => {
    const section = sections[n % sections.length];
    section.scrollIntoView();
    const box = section.getBoundingClientRect();
    return [section.id, Math.round(box.width), section.textContent.length];
  });
  return JSON.stringify(seen);
}
function find(words) {
  return JSON.stringify(words.map((w) => sections.filter((s) => s.textContent.includes(w)).length));
}
function edit(numbers, text) {
  for (const n of numbers) {
    const section = sections[n % sections.length];
    section.classList.toggle('folded');
    section.querySelector('input').value = text;
    const note = document.createElement('p');
    note.textContent = text;
    section.append(note);
  }
  return document.querySelectorAll('.folded').length;
}
"""

PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px sans-serif }} section {{ border: 1px solid #ccc; margin: 8px; padding: 8px }}
h2 {{ color: #246 }} .folded pre {{ display: none }} table td {{ border: 1px solid #ddd }}</style>
<body><h1>{title}</h1>{sections}<script>{script}</script>"""


def write_page(path, texts):
    """Writes one page and returns how many sections it has."""
    sections = []
    parts = []
    for name, text in texts:
        lines = text.splitlines()
        starts = range(0, len(lines), LINES_PER_SECTION)
        parts += [(f"{name}, line {start + 1}", lines[start : start + LINES_PER_SECTION]) for start in starts]
    for number, (name, lines) in enumerate(parts):
        rows = "".join(f"<tr><td>{i}</td><td>{html.escape(l[:60])}</td></tr>" for i, l in enumerate(lines[:20]))
        body = html.escape("\n".join(lines))
        sections.append(
            f'<section id="s{number}"><h2>{html.escape(name)}</h2><input><table>{rows}</table><pre>{body}</pre></section>'
        )
    path.write_text(PAGE.format(title=path.stem, sections="\n".join(sections), script=SCRIPT), encoding="utf-8")
    return len(sections)


class Browser:
    """A browser process and its debugging pipe: JSON messages that end with a zero byte."""

    def __init__(self, profile):
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def hand_over():
            # The browser reads descriptor 3 and writes descriptor 4. Go through high numbers first, since a
            # pipe may already have one of these.
            os.dup2(to_browser, 103)
            os.dup2(from_browser, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0

    def call(self, method, session=None, **params):
        """Calls a method and returns its result; events that come meanwhile are dropped."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            data = os.read(self.inp, 1 << 16)
            if not data:
                raise RuntimeError("the browser ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)


class Tab:
    def __init__(self, browser, url):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.call("Page.navigate", self.session, url=url)
        while not self.run("document.readyState === 'complete' && typeof show === 'function'"):
            pass

    def run(self, expression):
        result = self.browser.call("Runtime.evaluate", self.session, expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["text"])
        return result["result"].get("value")

    def bring_to_front(self):
        self.browser.call("Target.activateTarget", targetId=self.target)

    def paint(self):
        self.browser.call("Page.captureScreenshot", self.session, format="jpeg", quality=30)


home = pathlib.Path(os.environ["HOME"])
amount = int(sys.argv[1])
texts = list(driver.texts(amount * TABS))
browser = Browser(home / "profile")
tabs = []
counts = []
for number in range(TABS):
    page = home / f"page{number}.html"
    counts.append(write_page(page, texts[number::TABS]))
    tabs.append(Tab(browser, page.as_uri()))
sections = list(range(min(counts)))
WORDS = ["import", "return", "self", "class", "raise", "error", "yield", "lambda", "while", "except", "global", "with"]


def relaunch(seed):
    tab = tabs[0]
    tab.bring_to_front()
    seen = tab.run(f"show({driver.pick(sections, 10, seed)})")
    tab.paint()
    return driver.digest(seen)


def use(seed):
    rng = random.Random(seed)
    tab = tabs[rng.randrange(TABS)]
    tab.bring_to_front()
    found = tab.run(f"find({json.dumps(rng.sample(WORDS, 4))})")
    chosen = rng.sample(sections, min(6, len(sections)))
    folded = tab.run(f"edit({chosen}, 'typed by {seed}')")
    tab.paint()
    return driver.digest(found, folded)


driver.serve(relaunch, use)
browser.process.kill()
browser.process.wait()
