"""@huggingface/hub works against `drystone serve`, on Node.

usage: js.py DRYSTONE FOLDER

FOLDER is where npm installed the package. Ends with a line `js: N passed, M failed`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from harness import check, folder_place, show_logs


def main(drystone, package):
    module = package / "node_modules" / "@huggingface" / "hub" / "dist" / "index.mjs"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with folder_place(drystone, folder) as place:
            # It takes only tokens that begin so; the server takes it off again.
            env = {**os.environ, "HUB_JS": str(module), "HUB_URL": place.url, "HUB_TOKEN": f"hf_{place.admin}", "HF_HOME": str(folder / "home")}
            ran = subprocess.run(["node", Path(__file__).with_suffix(".mjs")], env=env, stdout=subprocess.PIPE, text=True, timeout=600)
            lines = [line.partition(": ") for line in ran.stdout.splitlines()]
            for verdict, _, name in lines:
                if verdict in ("ok", "FAILED"):
                    check(name, verdict == "ok")
                else:
                    print(f"{verdict}: {name}")
            check("the program runs to its end", ran.returncode == 0 and lines and lines[-1][0] == "done")
            show_logs(place)
    check.finish("js")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), Path(sys.argv[2]).absolute())
