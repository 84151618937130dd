"""A transfer agent of git-lfs that uploads with the published hf_xet wheel, by what the hub's batch answer says.

It does what git-xet does: each file is uploaded by itself, with the address and the token of its own answer, and
nothing is downloaded. git-lfs starts it, as `lfs.customtransfer.xet.path` says, and speaks lines of JSON with it.
"""

import json
import os
import sys

import hf_xet


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def upload(order):
    header = order["action"]["header"]
    access = (header["X-Xet-Access-Token"], int(header["X-Xet-Token-Expiration"]))
    [info] = hf_xet.upload_files([order["path"]], header["X-Xet-Cas-Url"], access, None, None, None)
    if info.file_size != order["size"]:
        raise RuntimeError(f"{info.file_size} bytes went out of {order['size']}")
    say({"event": "progress", "oid": order["oid"], "bytesSoFar": info.file_size, "bytesSinceLast": info.file_size})
    with open(os.environ["XET_AGENT_LOG"], "a") as log:
        log.write(f"{order['oid']} {info.hash}\n")


def main():
    for line in sys.stdin:
        order = json.loads(line)
        if order["event"] == "terminate":
            return
        if order["event"] == "init":
            say({} if order["operation"] == "upload" else {"error": {"code": 1, "message": "this agent only uploads"}})
            continue
        done = {"event": "complete", "oid": order["oid"]}
        try:
            upload(order)
        except Exception as error:
            done["error"] = {"code": 2, "message": repr(error)}
        say(done)


if __name__ == "__main__":
    main()
