"""LibreOffice as an application: a long text and a large sheet, read and changed through its own interface (UNO)."""

import os
import pathlib
import random
import subprocess
import sys
import time

import uno
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException

import driver

COLUMNS = 8
ROWS_AT_ONCE = 2000

home = pathlib.Path(os.environ["HOME"])
pipe = f"warmswap{os.getpid()}"
office = subprocess.Popen(
    [
        "soffice",
        "--headless",
        "--norestore",
        "--nologo",
        "--nodefault",
        f"-env:UserInstallation={(home / 'profile').as_uri()}",
        f"--accept=pipe,name={pipe};urp;",
    ],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
)
resolver = uno.getComponentContext().ServiceManager.createInstance("com.sun.star.bridge.UnoUrlResolver")
for _ in range(1200):
    try:
        context = resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
        break
    except NoConnectException:
        time.sleep(0.1)
else:
    raise SystemExit("soffice does not answer")
desktop = context.ServiceManager.createInstance("com.sun.star.frame.Desktop")


def new_document(kind):
    hidden = PropertyValue(Name="Hidden", Value=True)
    return desktop.loadComponentFromURL(f"private:factory/{kind}", "_blank", 0, (hidden,))


def write_text(limit):
    """A document with a heading and paragraphs for each source file; returns it with its headings."""
    document = new_document("swriter")
    text = document.Text
    cursor = text.createTextCursor()
    names = []
    for name, source in driver.texts(limit):
        names.append(name)
        cursor.ParaStyleName = "Heading 1"
        text.insertString(cursor, name, False)
        text.insertControlCharacter(cursor, 0, False)
        cursor.ParaStyleName = "Standard"
        # A line break in the string begins a paragraph.
        text.insertString(cursor, source, False)
        text.insertControlCharacter(cursor, 0, False)
    return document, names


def fill_sheet(rows):
    """A sheet of numbers with a sum of each row as a formula; returns it with the sums."""
    document = new_document("scalc")
    sheet = document.Sheets.getByIndex(0)
    rng = random.Random("sheet")
    sums = []
    for start in range(0, rows, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, rows - start)
        table = [[float(rng.randrange(10000)) for _ in range(COLUMNS)] for _ in range(count)]
        sums += [sum(row) for row in table]
        sheet.getCellRangeByPosition(0, start, COLUMNS - 1, start + count - 1).setDataArray(
            tuple(tuple(row) for row in table)
        )
        formulas = tuple((f"=SUM(A{row + 1}:H{row + 1})",) for row in range(start, start + count))
        sheet.getCellRangeByPosition(COLUMNS, start, COLUMNS, start + count - 1).setFormulaArray(formulas)
    return document, sheet, sums


amount = int(sys.argv[1])
text, names = write_text(amount)
table, sheet, sums = fill_sheet(amount // 40)
pages = text.CurrentController.ViewCursor
text.CurrentController.ViewCursor.jumpToLastPage()
page_count = pages.Page


def relaunch(seed):
    shown = []
    for page in driver.pick(range(1, page_count + 1), 6, seed):
        pages.jumpToPage(page)
        pages.jumpToStartOfPage()
        pages.gotoEndOfLine(True)
        shown.append((pages.Page, pages.String))
    for row in driver.pick(range(len(sums) - 40), 20, seed):
        cells = sheet.getCellRangeByPosition(COLUMNS, row, COLUMNS, row + 39).getDataArray()
        if [cell[0] for cell in cells] != sums[row : row + 40]:
            raise RuntimeError(f"the sums from row {row + 1} on are wrong")
        shown.append(cells)
    return driver.digest(shown)


def use(seed):
    rng = random.Random(seed)
    for row in rng.sample(range(len(sums)), 100):
        cell = sheet.getCellByPosition(0, row)
        sums[row] += seed % 97 - cell.Value
        cell.Value = seed % 97
    search = text.createSearchDescriptor()
    search.SearchString = rng.choice(names)
    search.SearchCaseSensitive = True
    found = text.findFirst(search)
    text.Text.insertString(found.End, f" (read by {seed})", False)
    pages.gotoRange(found, False)
    return driver.digest(pages.Page, found.String)


driver.serve(relaunch, use)
office.kill()
office.wait()
