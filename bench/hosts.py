"""Servers under measurement: ours, started on a fresh folder, and a rival started elsewhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Host:
    """A server: where it is, and what its process has used."""

    name = url = token = None
    pid = expires_s = 0

    @property
    def address(self):
        return self.url.split("//", 1)[1].rstrip("/")

    def cpu_s(self):
        # The name in the second field may hold anything, also spaces and brackets.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def peak_rss_mib(self):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def stop(self):
        pass


class Ours(Host):
    """`drystone serve` on a folder that is made for it and removed with it."""

    name = "drystone"

    def __init__(self, program, folder, *, keep=False, environment=None):
        self.program, self.folder, self.keep = program, folder, keep
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        self.log = open(folder / "server.log", "wb")
        command = [program, "serve", "--listen", "127.0.0.1:0", "--data", folder / "data"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=os.environ | (environment or {})
        )
        self.pid = self.process.pid
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                break
        else:
            sys.exit(f"the server ended with status {self.process.wait()}: see {folder / 'server.log'}")
        made = subprocess.run(
            [program, "token", "create", "--data", folder / "data", "--scope", "write", "--repo", "bench/files",
             "--ttl", "86400", "--json"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        made = json.loads(made.stdout)
        self.token, self.expires_s = made["token"], made["exp"]

    def metric(self, name):
        """The number of this name, summed over its labels."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        found = [float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(found) if found else float("nan")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)
        self.process.stdout.close()
        self.log.close()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


class Rival(Host):
    """A server that runs already. What it stores stays there, so every round brings it other bytes."""

    name = "rival"

    def __init__(self, url, pid, token):
        self.url, self.pid, self.token, self.expires_s = url.rstrip("/"), pid, token or "none", 2**33
