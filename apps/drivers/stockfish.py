"""Stockfish as an application: a chess engine with a hash table, driven in its own protocol (UCI)."""

import random
import sys

import console
import driver

OPENINGS = [
    "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6",
    "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 a7a6",
    "e2e4 e7e6 d2d4 d7d5 b1c3 f8b4 e4e5 c7c5",
    "e2e4 c7c6 d2d4 d7d5 b1c3 d5e4 c3e4 c8f5",
    "d2d4 d7d5 c2c4 e7e6 b1c3 g8f6 c1g5 f8e7",
    "d2d4 g8f6 c2c4 g7g6 b1c3 f8g7 e2e4 d7d6",
    "d2d4 g8f6 c2c4 e7e6 b1c3 f8b4 d1c2 e8g8",
    "c2c4 e7e5 b1c3 g8f6 g1f3 b8c6 g2g3 d7d5",
    "g1f3 d7d5 g2g3 g8f6 f1g2 e7e6 e1g1 f8e7",
    "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5 c2c3 g8f6",
]


class Engine(console.Console):
    def is_end(self, line):
        return line.startswith(self.end)


engine = Engine(["/usr/games/stockfish"], "readyok")
engine.ask("uci", "setoption name Threads value 1", f"setoption name Hash value {sys.argv[1]}", "isready")
engine.end = "bestmove"


def think(moves, nodes):
    """The engine's evaluation and the line that it expects."""
    lines = engine.ask(f"position startpos moves {' '.join(moves)}", f"go nodes {nodes}")
    found = [line for line in lines if " score " in line and " pv " in line]
    if not found:
        raise RuntimeError(f"no evaluation: {lines[-3:]}")
    words = found[-1].split()
    return words[words.index("score") + 1 : words.index("score") + 3], words[words.index("pv") + 1 :]


# A game from each opening, played by the engine itself, fills the table with what it thought about.
games = []
for opening in OPENINGS:
    moves = opening.split()
    for _ in range(4):
        _, line = think(moves, int(sys.argv[2]))
        moves = moves + line[:2]
    games.append(moves)


def relaunch(seed):
    return driver.digest(*[think(moves, 4000) for moves in driver.pick(games, 6, seed)])


def use(seed):
    moves = random.Random(seed).choice(games)
    return driver.digest(think(moves[: 8 + seed % 8], 30000))


driver.serve(relaunch, use)
engine.close()
