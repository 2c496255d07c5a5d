"""A Jupyter notebook's kernel as an application: data frames of pandas, asked by the cells of a notebook."""

import ast
import sys

import jupyter_client

import driver

SETUP = """
import pandas as pd, numpy as np, re
import driver
rows = []
for name, text in driver.texts({amount}):
    module = name.split('/')[0].removesuffix('.py')
    for number, line in enumerate(text.splitlines()):
        word = re.search(r'[A-Za-z_]+', line)
        rows.append((module, name, number, len(line), len(line) - len(line.lstrip()), word.group() if word else '', line))
lines = pd.DataFrame(rows, columns=['module', 'file', 'number', 'length', 'indent', 'word', 'text'])
del rows, text
rng = np.random.default_rng(1)
prices = pd.DataFrame({{m: 100 + rng.normal(0, 1, {amount} // 400).cumsum() for m in 'ABCDEFGH'}})
prices.index = pd.date_range('2001-01-01', periods=len(prices), freq='h')
modules = sorted(lines.module.unique())
"""
RELAUNCH = """
part = lines[lines.module.isin({modules})]
(part.groupby('file').agg(lines=('length', 'size'), longest=('length', 'max')).sum().tolist(),
 part.text.head(200).str.len().tolist(), prices.iloc[{start}:{start} + 5000].resample('D').mean().round(6).sum().tolist())
"""
USE = """
words = lines.iloc[{start}:{start} + 20000].groupby('word').size().sort_values(kind='stable').tail(20)
lines.loc[{start}:{start} + 500, 'text'] = lines.text.loc[{start}:{start} + 500].str.upper()
prices['H'] = prices['ABCDEFGH'[{seed} % 7]].rolling(24).mean().fillna(0) + {seed} % 10
(words.to_dict(), round(float(prices.H.sum()), 3), int(lines.text.str.isupper().sum()))
"""

manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3")


def run(code):
    """Runs a cell and returns what its last line is, as Jupyter would show it."""
    shown = []

    def note(message):
        if message["msg_type"] == "execute_result":
            shown.append(message["content"]["data"]["text/plain"])

    reply = client.execute_interactive(code, output_hook=note, store_history=False)["content"]
    if reply["status"] != "ok":
        raise RuntimeError(f"{reply['ename']}: {reply['evalue']}")
    return "".join(shown)


run(f"import sys; sys.path.insert(0, {sys.path[0]!r})")
run(SETUP.format(amount=int(sys.argv[1])))
modules = ast.literal_eval(run("modules"))
counts = ast.literal_eval(run("lines.groupby('module').size().to_dict()"))
rows = sum(counts.values())


def relaunch(seed):
    chosen = driver.pick(modules, 20, seed)
    answer = run(RELAUNCH.format(modules=chosen, start=seed % 1000))
    if ast.literal_eval(answer)[0][0] != sum(counts[module] for module in chosen):
        raise RuntimeError("the data frame has other lines than it was made of")
    return driver.digest(answer)


def use(seed):
    return driver.digest(run(USE.format(seed=seed, start=seed % max(rows - 20000, 1))))


driver.serve(relaunch, use)
client.stop_channels()
del client
manager.shutdown_kernel(now=True)
