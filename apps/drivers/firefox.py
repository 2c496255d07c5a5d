"""Headless Firefox as an application: local pages in tabs."""

import json
import os
import pathlib
import random
import sys

import driver
import marionette
import pages

TABS = 3

home = pathlib.Path(os.environ["HOME"])
texts = list(driver.texts(int(sys.argv[1]) * TABS))
browser = marionette.Mozilla("firefox-esr", home / "profile", {})
tabs = []
counts = []
for number in range(TABS):
    page = home / f"page{number}.html"
    counts.append(pages.write_page(page, texts[number::TABS]))
    if number == 0:
        tabs.append(browser.call("WebDriver:GetWindowHandle"))
    else:
        tabs.append(browser.call("WebDriver:NewWindow", type="tab", focus=True)["handle"])
    browser.call("WebDriver:SwitchToWindow", handle=tabs[-1], focus=True)
    browser.call("WebDriver:Navigate", url=page.as_uri())
sections = list(range(min(counts)))


def evaluate(expression):
    """Evaluates an expression of the page's own script."""
    return browser.run("return window.eval(arguments[0])", expression)


def show(tab):
    browser.call("WebDriver:SwitchToWindow", handle=tabs[tab], focus=True)


def paint():
    browser.call("WebDriver:TakeScreenshot", full=False, hash=True)


def relaunch(seed):
    show(0)
    chosen = driver.pick(sections, 10, seed)
    seen = evaluate(f"show({chosen})")
    if [section[0] for section in json.loads(seen)] != [f"s{number}" for number in chosen]:
        raise RuntimeError("the page shows other sections than it was asked for")
    paint()
    return driver.digest(seen)


def use(seed):
    rng = random.Random(seed)
    show(rng.randrange(TABS))
    found = evaluate(f"find({json.dumps(rng.sample(pages.WORDS, 4))})")
    chosen = rng.sample(sections, min(6, len(sections)))
    folded = evaluate(f"edit({chosen}, 'typed by {seed}')")
    paint()
    return driver.digest(found, folded)


driver.serve(relaunch, use)
browser.close()
