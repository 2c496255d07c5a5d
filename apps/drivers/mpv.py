"""The media player mpv as an application: two films whose packets are in memory, seen and searched without a display.

`mpv.py SECONDS CACHE_MIB`: ffmpeg makes the films from its own sources of pictures and sound.
"""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import driver

FILMS = {
    "zoom": ("mandelbrot=size=640x360:rate=12", "sine=frequency=330"),
    "cells": (
        "life=size=320x180:rate=12:ratio=0.2:seed=7:mold=10:life_color=yellow:death_color=blue,scale=640:360",
        "anoisesrc=seed=3",
    ),
}
home = pathlib.Path(os.environ["HOME"])
seconds, cache = int(sys.argv[1]), sys.argv[2]


class Player:
    """A player process, and its JSON messages on a socket."""

    def __init__(self, path):
        name = home / f"{path.stem}.sock"
        options = [
            "--no-config",
            "--vo=null",
            "--ao=null",
            "--pause",
            "--keep-open=yes",
            "--hr-seek=yes",
            "--load-scripts=no",
            "--cache=yes",
            f"--cache-secs={seconds}",
            f"--demuxer-max-bytes={cache}MiB",
            f"--demuxer-max-back-bytes={cache}MiB",
            "--really-quiet",
        ]
        self.process = subprocess.Popen(["mpv", *options, f"--input-ipc-server={name}", str(path)], stdin=subprocess.DEVNULL)
        self.number = 0
        for _ in range(3000):
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(str(name))
                break
            except OSError:
                time.sleep(0.01)
        else:
            raise SystemExit("mpv does not answer")
        self.file = self.socket.makefile("rb")

    def message(self):
        line = self.file.readline()
        if not line:
            raise RuntimeError("mpv ended")
        return json.loads(line)

    def call(self, *command):
        self.number += 1
        self.socket.sendall(json.dumps({"command": command, "request_id": self.number}).encode() + b"\n")
        while True:
            answer = self.message()
            if answer.get("request_id") == self.number:
                if answer["error"] not in ("success", "property unavailable"):
                    raise RuntimeError(f"{command[0]}: {answer['error']}")
                return answer.get("data")

    def seek(self, at):
        """Goes to a second of the film, waits until its picture is there, and returns where that is."""
        self.call("seek", at, "absolute+exact")
        while self.message().get("event") != "playback-restart":
            pass
        return self.call("get_property", "time-pos")


def make(path, picture, sound):
    inputs = ["-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, "-t", str(seconds)]
    coding = ["-c:v", "mjpeg", "-q:v", "6", "-pix_fmt", "yuvj420p", "-c:a", "pcm_s16le", "-threads", "1"]
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *inputs, *coding, str(path)], check=True)


players = []
for name, (picture, sound) in FILMS.items():
    make(home / f"{name}.mkv", picture, sound)
    players.append(Player(home / f"{name}.mkv"))
for player in players:
    while (state := player.call("get_property", "demuxer-cache-state")) is None or not (state["eof"] or state.get("idle")):
        time.sleep(0.05)
places = [round(at / 4, 2) for at in range(4, 4 * (seconds - 2))]


def relaunch(seed):
    seen = []
    for player in players:
        for at in driver.pick(places, 5, seed):
            found = player.seek(at)
            if abs(found - at) > 0.5:
                raise RuntimeError(f"the player is at {found} s, not at {at} s")
            seen.append(round(found, 3))
    return driver.digest(seen)


def use(seed):
    rng = random.Random(seed)
    player = rng.choice(players)
    begin = rng.choice(places[: len(places) // 2])
    seen = [round(player.seek(begin), 3)]
    for step in range(1, 13):
        seen.append(round(player.seek(begin + step / 12), 3))
    picture = home / "picture.png"
    player.call("screenshot-to-file", str(picture), "video")
    seen.append(picture.stat().st_size > 1000)
    return driver.digest(seen)


driver.serve(relaunch, use)
for player in players:
    player.process.kill()
    player.process.wait()
