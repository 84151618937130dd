"""A hub for the browser tests: models, datasets, versions that share chunks, a pack, and hostile files."""

import json
import os
import random
import struct
import subprocess
import urllib.request
import zlib

HOSTILE_NAME = "<img src=x onerror=hacked()>.txt"
SCRIPT = "<script>window.hacked=1;alert(1)</script>"
HOSTILE_README = f"""---
license: "</pre>{SCRIPT}"
---
# Harmless {SCRIPT}

<img src="x" onerror="window.hacked=1"> <a href="javascript:window.hacked=1">click</a> [link](javascript:window.hacked=1)
<svg onload="window.hacked=1"><script>window.hacked=1</script></svg> <iframe src="/"></iframe>
<style>body {{ display: none }}</style> <form action="/-/x"><input name="q"></form> <base href="https://example.org/">
<div style="position:fixed;inset:0" id="main" class="top">over everything</div>

![tracker](https://example.org/pixel.png)
"""
README = """---
license: mit
tags: [demo]
---
# Weights

A **small** model to look at, with a table and [its configuration](config.json).

| layer | shape |
|---|---|
| embed | 1000 × 64 |

![A picture](pictures/stone.png)

```python
from safetensors import safe_open
```
"""


def png(seed, size=48):
    """A picture of stripes in two colours."""
    rng = random.Random(seed)
    colours = [bytes(rng.randrange(40, 240) for _ in range(3)) for _ in range(2)]
    width = rng.randrange(3, 11)
    rows = b"".join(b"\0" + b"".join(colours[(x + y) // width % 2] for x in range(size)) for y in range(size))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def safetensors(body):
    """A file of tensors over these bytes."""
    half = len(body) // 2
    header = {"__metadata__": {"format": "pt"}}
    header["model.embed"] = {"dtype": "F16", "shape": [half // 128, 64], "data_offsets": [0, half]}
    for n in range(120):
        at = half + n * 100
        header[f"model.layers.{n}.weight"] = {"dtype": "F32", "shape": [5, 5], "data_offsets": [at, at + 100]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def post(place, path, body, method="POST"):
    request = urllib.request.Request(place.url + path, data=json.dumps(body).encode(), method=method,
                                     headers={"Authorization": f"Bearer {place.admin}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def push(drystone, place, folder, repo, message, *flags):
    env = {**os.environ, "DRYSTONE_ENDPOINT": place.url, "DRYSTONE_TOKEN": place.admin, "HF_TOKEN": place.admin, "HF_ENDPOINT": place.url}
    subprocess.run([drystone, "push", folder, repo, "--create", "--no-cache", "-m", message, *flags], check=True, env=env, stdout=subprocess.DEVNULL)


def fill(drystone, shardpack, place, work):
    """Puts all of it on a server."""
    model = work / "model"
    (model / "pictures").mkdir(parents=True)
    body = bytearray(random.Random(1).randbytes(6_000_000))
    (model / "model.safetensors").write_bytes(safetensors(bytes(body)))
    (model / "config.json").write_text(json.dumps({"hidden": 64, "layers": [{"n": n} for n in range(3)]}))
    (model / "README.md").write_text(README)
    (model / "notes.txt").write_text("".join(f"line {n}\n" for n in range(40)))
    (model / "pictures" / "stone.png").write_bytes(png(7))
    push(drystone, place, model, "ann/weights", "First weights")
    body[3_000_000:3_000_100] = b"x" * 100
    (model / "model.safetensors").write_bytes(safetensors(bytes(body)))
    (model / "notes.txt").write_text("".join(f"line {n}\n" for n in range(40)).replace("line 20", "line twenty"))
    post(place, "/api/models/ann/weights/tag/main", {"tag": "v1"})
    push(drystone, place, model, "ann/weights", "Train a little more")
    (model / "pictures" / "stone.png").unlink()
    push(drystone, place, model, "ann/fine-tuned", "Take over the weights")

    data = work / "data"
    (data / "records").mkdir(parents=True)
    for n in range(60):
        (data / "records" / f"stone-{n:03}.png").write_bytes(png(n))
        (data / "records" / f"stone-{n:03}.json").write_text(json.dumps({"label": n % 5, "name": f"stone {n}"}))
    out = work / "corpus"
    out.mkdir()
    subprocess.run([shardpack, "create", "--input", data / "records", "--output", out / "train.shardpack"], check=True, stdout=subprocess.DEVNULL)
    (out / "table.csv").write_text("name,weight,remark\n" + "".join(f'stone {n},{n * 7},"grey, round"\n' for n in range(200)))
    (out / "deep" / "er").mkdir(parents=True)
    (out / "deep" / "er" / "file.txt").write_text("down here\n")
    for n in range(150):
        (out / "deep" / f"part-{n:04}.txt").write_text(f"{n}\n")
    write_parquet(out / "table.parquet")
    push(drystone, place, out, "datasets/ann/stones", "Stones")

    hostile = work / "hostile"
    hostile.mkdir()
    (hostile / "README.md").write_text(HOSTILE_README)
    (hostile / "page.html").write_text(f"<!doctype html><title>x</title>{SCRIPT}<p>a page</p>")
    (hostile / "picture.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle cx="20" cy="20" r="18"/>{SCRIPT}</svg>')
    (hostile / HOSTILE_NAME).write_text(SCRIPT)
    (hostile / "table.csv").write_text(f"a,b\n{SCRIPT},=cmd()\n")
    (hostile / "broken.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + SCRIPT.encode())
    (hostile / "broken.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 20 + struct.pack("<I", 5000) + b"PAR1")
    (hostile / "broken.shardpack").write_bytes(b"SPAK" + bytes(range(256)) * 20)
    records = work / "bad-records"
    records.mkdir()
    (records / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40">{SCRIPT}</svg>')
    (records / "a.html").write_text(SCRIPT)
    subprocess.run([shardpack, "create", "--input", records, "--output", hostile / "bad.shardpack"], check=True, stdout=subprocess.DEVNULL)
    push(drystone, place, hostile, "ann/hostile", SCRIPT)

    # So that the dashboard has something to tell.
    subprocess.run([drystone, "verify", "--data", place.objects.parent], check=True, stdout=subprocess.DEVNULL)

    secret = work / "secret"
    secret.mkdir()
    (secret / "a.txt").write_text("nobody else's\n")
    push(drystone, place, secret, "ann/secret", "Hidden", "--private")


def write_parquet(path):
    """With pyarrow, where it is installed with the other tools of the tests."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"name": [f"stone {n}" for n in range(100)], "weight": list(range(100)), "tags": [["a", "b"]] * 100,
                           "found": pyarrow.array([None if n == 3 else n * 86_400 for n in range(100)], pyarrow.timestamp("s"))})
    pyarrow.parquet.write_table(table, path)
    # Pages longer than what is read at first, and one that is longer than what is read at all.
    numbers = [n * 2654435761 % 2**32 for n in range(300_000)]
    table = pyarrow.table({"number": numbers, "zeros": [bytes(5_000_000)] + [b""] * (len(numbers) - 1)})
    pyarrow.parquet.write_table(table, path.with_name("large.parquet"), use_dictionary=False)
