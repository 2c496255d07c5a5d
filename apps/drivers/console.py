"""A program that reads commands on its standard input and answers on its standard output, line by line."""

import subprocess


class Console:
    """Starts the program; `end` is a line that it prints when an answer is complete."""

    def __init__(self, command, end, **options):
        self.end = end
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace", **options
        )

    def ask(self, *commands):
        """Writes the commands and returns the lines of the answer, without its end."""
        self.process.stdin.write("\n".join(commands) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        """The lines of an answer to come."""
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if self.is_end(line):
                return lines
            lines.append(line)
        raise RuntimeError(f"{self.process.args[0]} ended, saying {lines[-3:]}")

    def is_end(self, line):
        return line == self.end

    def close(self):
        self.process.kill()
        self.process.wait()
