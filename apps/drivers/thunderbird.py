"""Headless Thunderbird as an application: a mail store in local folders, read and searched.

The messages are source files of the standard library, cut into mails with senders, subjects and dates.
"""

import email.utils
import os
import pathlib
import random
import sys

import driver
import marionette

FOLDERS = ["Inbox", "Lists", "Work", "Archive"]
PEOPLE = ["Ada", "Barbara", "Dennis", "Edsger", "Frances", "Grace", "Ken", "Margaret", "Niklaus", "Radia"]
LINES_PER_MAIL = 40
FIRST_DATE = 1_600_000_000

PREFERENCES = {
    "mail.account.account1.server": "server1",
    "mail.accountmanager.accounts": "account1",
    "mail.accountmanager.localfoldersserver": "server1",
    "mail.provider.suppress_dialog_on_startup": True,
    "mail.rights.version": 1,
    "mail.server.server1.hostname": "Local Folders",
    "mail.server.server1.name": "Local Folders",
    "mail.server.server1.type": "none",
    "mail.server.server1.userName": "nobody",
    "mail.shell.checkDefaultClient": False,
    "mail.spotlight.firstRunDone": True,
    "mail.winsearch.firstRunDone": True,
    "mailnews.start_page.enabled": False,
    "mailnews.database.global.indexer.enabled": True,
}

# Runs once in the program: what the requests call.
SCRIPT = """
window.app = {};
const { MailServices } = ChromeUtils.importESModule("resource:///modules/MailServices.sys.mjs");
app.folder = name => MailServices.accounts.localFoldersServer.rootFolder.getChildNamed(name);
app.open = function (name) {
  // Reads the folder's mailbox into a message database, as opening it does.
  const folder = app.folder(name).QueryInterface(Ci.nsIMsgLocalMailFolder);
  return new Promise((done, failed) => {
    const listener = { OnStartRunningUrl() {}, OnStopRunningUrl(url, status) { status ? failed(status) : done(); } };
    try {
      folder.getDatabaseWithReparse(listener, null);
    } catch (error) {
      // There is no database yet, or an old one: the listener hears when it is made.
    }
    try {
      if (folder.msgDatabase) done();
    } catch (error) {
      // The same.
    }
  });
};
app.headers = {};
app.read = function (name) {
  const found = [];
  for (const header of app.folder(name).msgDatabase.enumerateMessages()) found.push(header);
  found.sort((a, b) => a.messageOffset - b.messageOffset);
  app.headers[name] = found;
  return found.length;
};
app.list = (name, from, count) => app.headers[name].slice(from, from + count).map(
  h => [h.mime2DecodedSubject, h.mime2DecodedAuthor, h.dateInSeconds, h.isRead].join(" "));
app.show = function (name, at) {
  const header = app.headers[name][at];
  const stream = app.folder(name).getMsgInputStream(header, {});
  const text = NetUtil.readInputStreamToString(stream, Math.min(header.messageSize, stream.available()));
  stream.close();
  header.markRead(true);
  return text;
};
app.find = (name, word) => app.headers[name].filter(h => h.mime2DecodedSubject.includes(word)).length;
app.tag = (name, at, on) => app.headers[name][at].markFlagged(on);
"""


def mails(limit):
    """Mails as (number, subject, text of the whole mail)."""
    rng = random.Random("mail")
    number = 0
    for name, text in driver.texts(limit):
        lines = text.splitlines()
        for start in range(0, len(lines), LINES_PER_MAIL):
            who = rng.choice(PEOPLE)
            subject = f"{name}, line {start + 1}"
            date = email.utils.formatdate(FIRST_DATE + 600 * number)
            body = "\n".join(f" {line}" for line in lines[start : start + LINES_PER_MAIL])
            yield (
                number,
                subject,
                f"From - \nFrom: {who} <{who.lower()}@example.org>\nTo: list@example.org\nSubject: {subject}\n"
                f"Date: {date}\nMessage-ID: <{number}@example.org>\nContent-Type: text/plain; charset=utf-8\n\n{body}\n\n",
            )
            number += 1


home = pathlib.Path(os.environ["HOME"])
profile = home / "profile"
local = profile / "Mail" / "Local Folders"
local.mkdir(parents=True)
subjects = {name: [] for name in FOLDERS}
boxes = {name: open(local / name, "w", encoding="utf-8", errors="replace") for name in FOLDERS}
for number, subject, text in mails(int(sys.argv[1])):
    name = FOLDERS[number % len(FOLDERS)]
    subjects[name].append(subject)
    boxes[name].write(text)
for box in boxes.values():
    box.close()
preferences = {
    **PREFERENCES,
    "mail.server.server1.directory": str(local),
    "mail.server.server1.directory-rel": "[ProfD]Mail/Local Folders",
}
program = marionette.Mozilla("thunderbird", profile, preferences, "--remote-allow-system-access")
program.call("Marionette:SetContext", value="chrome")
program.run(SCRIPT + "window.NetUtil = ChromeUtils.importESModule('resource://gre/modules/NetUtil.sys.mjs').NetUtil;")
for name in FOLDERS:
    problem = program.run_async(
        "const done = arguments[1]; app.open(arguments[0]).then(() => done(null), e => done(String(e)))", name
    )
    if problem:
        raise SystemExit(f"{name} cannot be opened: {problem}")
    count = program.run("return app.read(arguments[0])", name)
    if count != len(subjects[name]):
        raise SystemExit(f"{name} has {count} messages, not {len(subjects[name])}")


def relaunch(seed):
    shown = []
    for name in FOLDERS[:2]:
        first = max(len(subjects[name]) - 60, 0)
        listed = program.run("return app.list(...arguments)", name, first, 60)
        if not all(line.startswith(subject) for line, subject in zip(listed, subjects[name][first:])):
            raise RuntimeError("the list shows other messages than were stored")
        shown += listed
        for at in driver.pick(range(len(subjects[name])), 15, seed):
            shown.append(program.run("return app.show(...arguments)", name, at))
    return driver.digest(shown)


def use(seed):
    rng = random.Random(seed)
    name = rng.choice(FOLDERS)
    found = [program.run("return app.find(...arguments)", name, str(rng.randrange(100))) for _ in range(3)]
    for at in rng.sample(range(len(subjects[name])), min(20, len(subjects[name]))):
        found.append(program.run("return app.show(...arguments).length", name, at))
        program.run("app.tag(...arguments)", name, at, rng.random() < 0.5)
    return driver.digest(found)


driver.serve(relaunch, use)
program.close()
