"""Headless Chromium as an application: local pages in tabs, driven by the DevTools protocol over a pipe."""

import json
import os
import pathlib
import random
import subprocess
import sys

import driver
import pages

TABS = 3
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
    counts.append(pages.write_page(page, texts[number::TABS]))
    tabs.append(Tab(browser, page.as_uri()))
sections = list(range(min(counts)))


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
    found = tab.run(f"find({json.dumps(rng.sample(pages.WORDS, 4))})")
    chosen = rng.sample(sections, min(6, len(sections)))
    folded = tab.run(f"edit({chosen}, 'typed by {seed}')")
    tab.paint()
    return driver.digest(found, folded)


driver.serve(relaunch, use)
browser.process.kill()
browser.process.wait()
