"""A program of Mozilla's, without a display, driven by its remote protocol (Marionette)."""

import json
import pathlib
import socket
import subprocess
import time

PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage": "about:blank",
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processCount": 3,
    "dom.ipc.processPrelaunch.enabled": False,
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "security.sandbox.content.level": 0,
    "toolkit.telemetry.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


class Mozilla:
    """The program, and messages of the form `LENGTH:[TYPE, NUMBER, NAME OR ERROR, VALUE]`."""

    def __init__(self, program, profile, preferences, *options):
        profile = pathlib.Path(profile)
        profile.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        preferences = {**PREFERENCES, "marionette.port": port, **preferences}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
        (profile / "user.js").write_text("".join(lines))
        options = ["--headless", "--marionette", "--no-remote", "--profile", str(profile), *options]
        # What it says while it starts is of no use, and it says much.
        nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([program, *options], **nothing)
        self.file = self.connect(port)
        self.number = 0
        self.receive()
        capabilities = {"pageLoadStrategy": "normal", "timeouts": {"script": 110000, "pageLoad": 280000}}
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": capabilities})

    def connect(self, port):
        for _ in range(2000):
            if self.process.poll() is not None:
                raise SystemExit(f"{self.process.args[0]} ended with {self.process.returncode}")
            try:
                return socket.create_connection(("127.0.0.1", port)).makefile("rwb")
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{self.process.args[0]} does not answer")

    def receive(self):
        length = 0
        while (digit := self.file.read(1)) != b":":
            if not digit:
                raise RuntimeError(f"{self.process.args[0]} ended")
            length = length * 10 + int(digit)
        return json.loads(self.file.read(length))

    def call(self, method, **params):
        self.number += 1
        message = json.dumps([0, self.number, method, params]).encode()
        self.file.write(b"%d:%s" % (len(message), message))
        self.file.flush()
        while True:
            kind, number, error, value = self.receive()
            if (kind, number) == (1, self.number):
                break
        if error:
            raise RuntimeError(f"{method}: {error.get('message')}")
        return value["value"] if isinstance(value, dict) and set(value) == {"value"} else value

    def run(self, script, *args):
        return self.call("WebDriver:ExecuteScript", script=script, args=list(args), newSandbox=False)

    def run_async(self, script, *args):
        """Runs a script that calls its last argument with the answer."""
        return self.call("WebDriver:ExecuteAsyncScript", script=script, args=list(args), newSandbox=False)

    def close(self):
        self.process.kill()
        self.process.wait()
