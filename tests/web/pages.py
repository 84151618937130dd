"""Every page of `drystone serve` in a browser: what it shows, that it can be used by all, that nothing stored becomes script.

usage: pages.py DRYSTONE SHARDPACK FOLDER SCREENSHOTS

FOLDER is where npm installed playwright-core and axe-core. Pictures of the pages go to SCREENSHOTS. Ends with a line
`pages: N passed, M failed`.
"""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import hub
from harness import check, folder_place, show_logs


def main(drystone, shardpack, packages, screenshots):
    screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with folder_place(drystone, folder) as place:
            hub.fill(drystone, shardpack, place, folder)
            modules = packages / "node_modules"
            env = {**os.environ, "PLAYWRIGHT": str(modules / "playwright-core" / "index.mjs"), "AXE": str(modules / "axe-core" / "axe.min.js"),
                   "HUB_URL": place.url, "HUB_TOKEN": place.admin, "SCREENSHOTS": str(screenshots), "HOSTILE_NAME": hub.HOSTILE_NAME}
            upload = folder / "from a browser.bin"
            upload.write_bytes(random.Random(5).randbytes(9_000_000))
            env["UPLOAD"] = str(upload)
            # Told as it comes: browsers take their time on a busy machine.
            for script in ("pages.mjs", "account.mjs"):
                with subprocess.Popen(["node", Path(__file__).parent / script], env=env, stdout=subprocess.PIPE, text=True) as ran:
                    verdict = ""
                    for line in ran.stdout:
                        verdict, _, name = line.rstrip("\n").partition(": ")
                        if verdict in ("ok", "FAILED"):
                            check(name, verdict == "ok")
                        else:
                            print(line, end="", flush=True)
                check(f"{script} runs to its end", ran.returncode == 0 and verdict == "done")
            for name, wanted in {"sent/from a browser.bin": upload.read_bytes(), "sent/note.txt": b"a small text\n"}.items():
                got = subprocess.run([Path(sys.executable).parent / "hf", "download", "ann/weights", name, "--local-dir", folder / "back"],
                                     env={**os.environ, "HF_ENDPOINT": place.url, "HF_TOKEN": place.admin, "HF_HOME": str(folder / "home"),
                                          "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}, capture_output=True, text=True)
                check(f"hf downloads {name}", got.returncode == 0 and (folder / "back" / name).read_bytes() == wanted, got.stderr)
            show_logs(place)
    check.finish("pages")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), Path(sys.argv[3]).absolute(), Path(sys.argv[4]).absolute())
