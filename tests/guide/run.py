"""Runs every command of the guide: each page is one session in a fresh folder, with a server's port of its own.

usage: run.py DRYSTONE S3D [--torch PYTHON] [PAGE…]

| block             | what happens                                                                                 |
|-------------------|----------------------------------------------------------------------------------------------|
| ```sh             | run in the page's shell, which ends at the first failure                                     |
| ```console        | each `$ ` line is run; lines below it are compared with what it prints, `…` stands for anything; what shows nothing must end well |
| ```python         | run in the page's Python, which begins with the shell's variables and folder                 |
| ```LANG file=NAME | written to that file                                                                         |
| … no-run          | left out: what no test can do here (another machine, systemd, Docker). Counted and named     |
| <!-- run: … -->   | run in the shell, and not shown: what a reader has already, such as files to push            |
| <!-- python: … --> | the same in Python                                                                          |

Addresses of the pages stand for real ones of this run; `stand_ins` has them all. A page whose block needs something that is not
installed is named as skipped.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from harness import bucket_and_database, check, free_port  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
END = "--end of the command--"
TIMEOUT_S = 180
LANGUAGES = ("sh", "console", "python", "json", "rust", "text", "toml")


class Failed(Exception):
    pass


def blocks(text):
    """(language, words after it, body) of each fence, and of each comment that is to be run, in their order."""
    fences = [line for line in text.splitlines() if line.startswith("```")]
    strange = [fence for fence in fences[::2] if fence[3:].split(" ")[0] not in LANGUAGES]
    if strange or len(fences) % 2:
        raise Failed(f"blocks of a kind that is not known, so that nobody would run them: {strange}")
    pattern = re.compile(r"^```([a-z]+)([^\n]*)\n(.*?)^```$|^<!-- (run|python): (.*?) -->$", re.MULTILINE | re.DOTALL)
    for found in pattern.finditer(text):
        if found[4] is not None:
            yield "sh" if found[4] == "run" else "python", ["hidden"], found[5]
        else:
            yield found[1], found[2].split(), found[3]


def console(body):
    """(command, lines shown below it) of a console block. A command goes on after a backslash and in a here-document."""
    lines, commands = body.splitlines(), []
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            if not commands:
                raise Failed(f"a console block should begin with a command: {line}")
            commands[-1][1].append(line)
            continue
        command = [line[2:]]
        until = re.search(r"<<'?(\w+)'?", line)
        while lines and (command[-1].endswith("\\") or until):
            command.append(lines.pop(0))
            if until and command[-1] == until[1]:
                break
        commands.append(("\n".join(command), []))
    return commands


def matches(shown, printed):
    pattern = "\n".join(".*".join(re.escape(part) for part in line.split("…")) for line in shown)
    # A line that is only `…` stands for any number of lines.
    pattern = re.sub(r"(?m)^\.\*$", r"[\\s\\S]*", pattern)
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


class Child:
    """A process that is given pieces of work on its input, and says when each is done."""

    def __init__(self, command, env, cwd):
        self.process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def do(self, work, what, until=f"{END}\n"):
        """Gives it work and reads what it prints, until that has `until` in it."""
        try:
            self.process.stdin.write(work.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{what}: the session is over") from None
        printed, end, deadline = b"", re.compile(until.encode()), time.monotonic() + TIMEOUT_S
        while not end.search(printed):
            has_ended = self.process.poll() is not None
            is_readable = select.select([self.process.stdout], [], [], 0 if has_ended else 0.2)[0]
            if is_readable and (piece := os.read(self.process.stdout.fileno(), 1 << 16)):
                printed += piece
            elif has_ended:
                # The end of the pipe alone does not prove it: a server of the page may hold that open.
                raise Failed(f"{what}: failed with {self.process.returncode}: {printed.decode(errors='replace')}")
            elif time.monotonic() > deadline:
                raise Failed(f"{what}: not done after {TIMEOUT_S} s; so far: {printed.decode(errors='replace')}")
        return printed.decode(errors="replace").replace(f"{END}\n", "")

    def stop(self):
        # With everything it started: servers of the page.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


PYTHON = """
import sys
END, names = sys.argv[1], {"__name__": "__main__"}
while length := sys.stdin.buffer.readline():
    exec(compile(sys.stdin.buffer.read(int(length)), "block", "exec"), names)
    print(END, flush=True)
"""


class Session:
    """A page's shell, its Python, and the folder both are in."""

    def __init__(self, folder, bins, python, stand_ins):
        self.folder, self.python_path = folder, python
        self.stand_ins = stand_ins | {"https://git.example.com/team/model.git": f"file://{folder}/there.git"}
        env = {name: value for name, value in os.environ.items() if not re.match("DRYSTONE_|HF_|AWS_|PG", name)}
        env |= {
            "PATH": f"{bins}:{Path(python).parent}:{env['PATH']}", "HOME": str(folder), "HF_HOME": str(folder / ".hf"),
            # What `drystone serve` would listen on by itself is perhaps taken.
            "DRYSTONE_LISTEN": stand_ins["127.0.0.1:8080"], "DRYSTONE_DISK_FREE_BYTES_MIN": "0",
            # What a server has to say would stand among what commands print.
            "DRYSTONE_LOG_LEVEL": "error",
            "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.com",
            "GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.com",
        }
        self.shell = Child(["bash", "--noprofile", "--norc"], env, folder)
        self.shell.do(f"set -e -o pipefail\necho '{END}'\n", "a shell")
        self.python = None

    def translate(self, text):
        for name, real in self.stand_ins.items():
            text = text.replace(name, real)
        return text

    def sh(self, commands, may_fail=False):
        """Runs commands; unless they may fail, the first that does ends the session."""
        commands = self.translate(commands).rstrip()
        # From a file: a command that reads its input must not read the commands after it.
        (self.folder / ".commands").write_text(commands + "\n")
        source = f". '{self.folder}/.commands' </dev/null"
        # In a condition, nothing ends the shell.
        work = f"if {source}; then :; fi; echo '{END}'\n" if may_fail else f"{source}; echo '{END}'\n"
        printed = self.shell.do(work, commands)
        # A reader waits until the server listens before going on.
        lines = commands.replace("\\\n", " ").split("\n")
        starts = sum("drystone serve" in line and line.endswith("&") for line in lines)
        while len(re.findall(r"listening on \S+\n", printed)) < starts:
            printed += self.shell.do("", commands, r"listening on \S+\n")
        return printed

    def py(self, code):
        if self.python is None:
            self.sh("env -0 >.environment; pwd >.folder")
            pairs = (self.folder / ".environment").read_bytes().decode().split("\0")
            env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            folder = (self.folder / ".folder").read_text().strip()
            self.python = Child([self.python_path, "-W", "ignore", "-c", PYTHON, END], env, folder)
        code = self.translate(code)
        return self.python.do(f"{len(code.encode())}\n{code}", code)

    def file(self, name, body):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.translate(body))

    def stop(self):
        for child in (self.python, self.shell):
            if child:
                child.stop()


def run_page(page, session):
    """Runs a page from top to bottom; counts what ran, and what is marked as not to be run."""
    ran = unrun = 0
    for language, words, body in blocks(page.read_text()):
        names = [word.removeprefix("file=") for word in words if word.startswith("file=")]
        if "no-run" in words:
            unrun += 1
        elif names:
            session.file(names[0], body)
        elif language in ("sh", "python"):
            (session.sh if language == "sh" else session.py)(body)
            ran += "hidden" not in words
        elif language == "console":
            for command, shown in console(body):
                # What fails on purpose shows how.
                printed = session.sh(command, may_fail=bool(shown))
                if shown and not matches([session.translate(line) for line in shown], printed):
                    raise Failed(f"$ {command}\nthe page shows\n" + "\n".join(shown) + f"\nand it printed\n{printed}")
                ran += 1
    return ran, unrun


def broken_links():
    """Links between pages, to missing files or headings."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packaging").glob("*.md")]
    broken = []
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", link) or (target.exists() and (not heading or heading in headings(target))):
                continue
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    return broken


def headings(page):
    """As they are called in links: lower case, without signs, hyphens for spaces."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@contextlib.contextmanager
def no_services():
    yield None


def main():
    arguments = sys.argv[1:]
    torch = None
    if "--torch" in arguments:
        at = arguments.index("--torch")
        # Not followed: a link of a virtual environment leads out of it.
        torch = str(Path(arguments[at + 1]).absolute())
        del arguments[at:at + 2]
    drystone, s3d = (Path(path).resolve() for path in arguments[:2])
    pages = [Path(page) for page in arguments[2:]] or [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))]
    texts = {page: page.read_text() for page in pages}
    wants_services = any("postgres://" in text and "s3://models" in text for text in texts.values())
    with bucket_and_database(s3d) if wants_services else no_services() as services:
        for page in pages:
            name = page.resolve().relative_to(ROOT)
            if "```" not in texts[page]:
                continue
            needs_torch = re.search(r"^(import|from) torch", texts[page], re.MULTILINE) is not None
            if "s3://models" in texts[page] and services is None:
                print(f"skipped: {name}: PostgreSQL is not installed")
                continue
            if needs_torch and torch is None:
                print(f"skipped: {name}: there is no torch for this Python")
                continue
            with tempfile.TemporaryDirectory(prefix="guide-", ignore_cleanup_errors=True) as folder:
                session = Session(Path(folder), drystone.parent, torch if needs_torch else sys.executable, stand_ins(services))
                begun = time.monotonic()
                try:
                    ran, unrun = run_page(page, session)
                    left_out = f", {unrun} blocks left out" if unrun else ""
                    check(f"{name}: {ran} commands and blocks{left_out} ({time.monotonic() - begun:.1f} s)", ran > 0)
                except (Failed, OSError) as failed:
                    check(f"{name}", False, str(failed))
                finally:
                    session.stop()
    broken = broken_links()
    check("links between pages lead somewhere", not broken, broken)
    check.finish("guide")


def stand_ins(services):
    """What pages call by a name that is right for readers, and what that is here."""
    names = {
        # Longer names first.
        "127.0.0.1:8081": f"127.0.0.1:{free_port()}",
        "127.0.0.1:8080": f"127.0.0.1:{free_port()}",
        "hub.example.com:8443": f"localhost:{free_port()}",
    }
    names["https://huggingface.co"] = f"http://{names['127.0.0.1:8081']}"
    names["0.0.0.0:8443"] = names["hub.example.com:8443"].replace("localhost", "127.0.0.1")
    if services:
        bucket, _, prefix = services["bucket"].removeprefix("s3://").partition("/")
        # Pages that use them are about the same hub.
        names |= {
            "https://s3.example.com": services["endpoint"], "s3://models/hub": f"s3://{bucket}/{prefix}",
            "s3://backup/hub": f"s3://{bucket}/backup", "S3-KEY": services["key"], "S3-SECRET": services["secret"],
            "postgres://hub:PASSWORD@db.example.com/hub": services["catalog"],
        }
    return names


if __name__ == "__main__":
    main()
