"""What the Python drivers share: the line protocol, the text to work on, and varied requests.

Protocol: the driver prints `ready`; then it reads lines `relaunch SEED` or `use SEED` from standard
input and answers each with `done DIGEST` or `error TEXT`. It ends at the end of its input.
"""

import hashlib
import pathlib
import random
import sys
import sysconfig


def texts(limit_bytes):
    """Source files of the standard library as (name, text), in a fixed order, of about limit_bytes.

    When the library holds less, its files come again under other names.
    """
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(p for p in root.rglob("*.py") if "test" not in p.parts and "site-packages" not in p.parts)
    total = 0
    for turn in range(1000):
        for path in paths:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            yield f"{path.relative_to(root)}#{turn}" if turn else str(path.relative_to(root)), text
            total += len(text)
            if total >= limit_bytes:
                return


def pick(items, count, seed):
    """`count` of the items: 70 % are the same for every seed, the others vary, as a person's do."""
    count = min(count, len(items))
    same = count * 7 // 10
    order = list(range(len(items)))
    random.Random("core").shuffle(order)
    core, others = order[:same], order[same:]
    return [items[i] for i in core + random.Random(seed).sample(others, count - same)]


def digest(*parts):
    """A short digest of the answer, to tell whether two runs did the same."""
    sum_ = hashlib.sha256()
    for part in parts:
        sum_.update(part if isinstance(part, bytes) else repr(part).encode())
    return sum_.hexdigest()[:16]


def answer(line, relaunch, use):
    """The answer to a line. Both functions take a seed and return a digest."""
    actions = {"relaunch": relaunch, "use": use}
    try:
        kind, seed = line.split()
        return f"done {actions[kind](int(seed))}"
    except Exception as error:  # The caller decides what an error means.
        return f"error {type(error).__name__}: {error}".replace("\n", " ")


def serve(relaunch, use):
    """Answers requests until the input ends."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(answer(line, relaunch, use), flush=True)
