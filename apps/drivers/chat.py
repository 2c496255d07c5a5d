"""WeeChat as an application: channels full of chat in its buffers. This runs inside WeeChat, as a script of it."""

import os
import random
import sys

import weechat

sys.path.insert(0, os.environ["HOME"] + "/drivers")

import driver

PEOPLE = ["ada", "barbara", "dennis", "edsger", "frances", "grace", "ken", "margaret", "niklaus", "radia"]
CHANNELS = 20

weechat.register("app", "warmswap", "1", "Apache-2.0", "An application driven on its standard input", "", "")
buffers = []
counts = []
pending = b""


def say(at, who, text):
    weechat.prnt_date_tags(buffers[at], 1_600_000_000 + counts[at], "notify_message", f"{who}\t{text}")
    counts[at] += 1


def load(limit):
    """Fills the channels with lines of source files, as if people said them."""
    for number in range(CHANNELS):
        buffers.append(weechat.buffer_new(f"channel{number}", "", "", "", ""))
        counts.append(0)
    for number, (_, text) in enumerate(driver.texts(limit)):
        for at, line in enumerate(text.splitlines()):
            if line.strip():
                say(number % CHANNELS, PEOPLE[at // 4 % len(PEOPLE)], line.strip())


def last_lines(at, count, skip=0):
    """Lines from the end of a channel, after some are passed over, as WeeChat shows them."""
    lines = weechat.hdata_pointer(weechat.hdata_get("buffer"), buffers[at], "own_lines")
    line = weechat.hdata_pointer(weechat.hdata_get("lines"), lines, "last_line")
    kind, data_kind = weechat.hdata_get("line"), weechat.hdata_get("line_data")
    found = []
    for _ in range(skip):
        line = weechat.hdata_move(kind, line, -1) or line
    while line and len(found) < count:
        data = weechat.hdata_pointer(kind, line, "data")
        found.append(weechat.hdata_string(data_kind, data, "prefix") + weechat.hdata_string(data_kind, data, "message"))
        line = weechat.hdata_pointer(kind, line, "prev_line")
    return found


def relaunch(seed):
    shown = []
    for at in driver.pick(range(CHANNELS), 10, seed):
        weechat.buffer_set(buffers[at], "display", "1")
        lines = last_lines(at, 60) + last_lines(at, 60, 1000)
        if len(lines) != min(counts[at], 60) + min(max(counts[at] - 1000, 0), 60):
            raise RuntimeError(f"channel {at} shows {len(lines)} lines")
        shown += lines
    return driver.digest(shown)


def use(seed):
    rng = random.Random(seed)
    for at in rng.sample(range(CHANNELS), 6):
        for number in range(20):
            say(at, rng.choice(PEOPLE), f"this is what {seed} says, line {number}")
    found = [line for line in last_lines(rng.randrange(CHANNELS), 3000) if "return" in line]
    return driver.digest(found)


def hear(data, descriptor):
    """Called by WeeChat when there is something on its standard input. Its own output goes to its windows."""
    global pending
    read = os.read(0, 4096)
    if not read:
        os._exit(0)
    *lines, pending = (pending + read).split(b"\n")
    for line in lines:
        os.write(1, driver.answer(line.decode(), relaunch, use).encode() + b"\n")
    return weechat.WEECHAT_RC_OK


weechat.config_option_set(weechat.config_get("weechat.history.max_buffer_lines_number"), "0", 1)
load(int(weechat.config_get_plugin("amount")))
weechat.hook_fd(0, 1, 0, 0, "hear", "")
os.write(1, b"ready\n")
