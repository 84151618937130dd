#!/usr/bin/env python3
"""Makes the seed corpora anew: fuzz/corpus/TARGET/NAME, from testdata/vectors and from texts below.

    python3 fuzz/seed.py

The same vectors give the same bytes. Each target's input format is in the first lines of its code; the files here are
small inputs of that format which reach far into the code. A corpus whose target has no function here is left alone.
"""

import json
import pathlib
import shutil
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parent / "testdata" / "vectors"
# Longer seeds make every run slower and find no more.
SEED_BYTES_MAX = 6300
TOTAL_BYTES_MAX = 300_000


def main():
    manifest = json.loads((VECTORS / "manifest.json").read_text())
    total = 0
    for make in (
        chunk_range,
        chunker,
        hash_text,
        http_range,
        lz4_frame,
        merkle,
        multipart,
        parquet_head,
        plan,
        routes_query,
        sha256_many,
        shard_lookup,
        shard_parse,
        wire_frames,
        wire_json,
        xorb_footer,
        xorb_scan,
    ):
        folder = HERE / "corpus" / make.__name__
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        seeds = make(manifest)
        for name, seed in seeds.items():
            (folder / name).write_bytes(seed)
        size = sum(len(seed) for seed in seeds.values())
        print(f"{make.__name__:14} {len(seeds):3} files {size:7} bytes")
        total += size
    print(f"{total} bytes in all")
    if total > TOTAL_BYTES_MAX:
        sys.exit(f"more than {TOTAL_BYTES_MAX} bytes: choose less")


def files(folder, *, bytes_max=SEED_BYTES_MAX):
    """The distinct small vectors of a folder, by name."""
    seen = set()
    for path in sorted((VECTORS / folder).iterdir()):
        content = path.read_bytes()
        if len(content) <= bytes_max and content not in seen:
            seen.add(content)
            yield path.name, content


# Formats: vectors, with the prefix that the target reads first.


def chunk_range(_):
    seeds = {name.removesuffix(".chunk"): b"\x00\x01" + record for name, record in files("records", bytes_max=1000)}
    for name, xorb in files("xorbs"):
        if ".footerless" in name:
            seeds[name.removesuffix(".footerless.xorb")] = b"\x01\x03" + xorb
    for name, xorb in files("adversarial", bytes_max=2000):
        if name.startswith("xn_"):
            seeds[name.removesuffix(".xorb")] = b"\x00\x02" + xorb
    return seeds


def xorb_scan(_):
    seeds = {name.removesuffix(".xorb"): b"\x40" + xorb for name, xorb in files("xorbs")}
    wanted = ("xf_reserved", "xf_version_2", "xf_unpacked", "xn_trailing", "xn_lz4_block", "xn_full_footer")
    for name, xorb in files("adversarial"):
        if name.startswith(wanted):
            seeds[name.removesuffix(".xorb")] = b"\xff" + xorb
    return seeds


def xorb_footer(manifest):
    seeds = {}
    for xorb in manifest["xorbs"]:
        for file in xorb["files"]:
            name = pathlib.Path(file["file"]).name.removesuffix(".xorb")
            if file["footer"] is None or ".auto" in name and len(xorb["chunks"]) > 20:
                continue
            base = file["chunk_region_size"]
            seeds[name] = base.to_bytes(3, "little") + (VECTORS / file["file"]).read_bytes()[base:]
    base = len((VECTORS / "adversarial" / "xn_ok.xorb").read_bytes())
    for name, xorb in files("adversarial"):
        if name.startswith("xf_"):
            seeds[name.removesuffix(".xorb")] = base.to_bytes(3, "little") + xorb[base:]
    return distinct(seeds)


def lz4_frame(manifest):
    """The first byte chooses scheme and length; 252 and above is the longest chunk, 249 the length of the input."""
    seeds = {}
    for record in manifest["chunk_records"]:
        scheme, stored_len, raw_len = record["header"]
        if stored_len > 2000:
            continue
        stored = (VECTORS / record["file"]).read_bytes()[8:]
        step = 84 if raw_len == 131_072 else 83 if raw_len == stored_len else raw_len // 5
        if step <= 84:
            name = pathlib.Path(record["file"]).name.removesuffix(".chunk")
            seeds[name] = bytes([step * 3 + scheme]) + stored
    # Two independent blocks, one of them stored, and frames that others write.
    frame = bytes.fromhex("04224d18604082")
    blocks = struct.pack("<I", 0x8000_0005) + b"hello" + struct.pack("<I", 0)
    seeds["stored_block"] = bytes([1 * 3 + 1]) + frame + blocks
    return distinct(seeds)


def shard_parse(_):
    seeds = {name.removesuffix(".shard"): shard for name, shard in files("shards") if keep_shard(name)}
    wanted = ("ss_cas", "ss_chunk", "ss_footer_192", "su_app", "su_cas_num", "su_mixed", "su_sem_chunk", "su_truncated")
    for name, shard in files("adversarial"):
        if name.startswith(wanted):
            seeds[name.removesuffix(".shard")] = shard
    return seeds


def shard_lookup(_):
    seeds = {name.removesuffix(".shard"): shard for name, shard in files("shards") if keep_shard(name)}
    seeds = {name: shard for name, shard in seeds.items() if not name.endswith(".upload")}
    for name, shard in files("adversarial"):
        if name.startswith(("ss_cas", "ss_chunk")):
            seeds[name.removesuffix(".shard")] = shard
    return seeds


def keep_shard(name):
    """Of two contents in every form, the smaller one is enough."""
    return not name.startswith(("multi.dedup", "multi.footer", "multi.keyed", "multi.xorb"))


def merkle(manifest):
    """A salt; then for each leaf the byte that decides groups, the length, and how often it is repeated."""
    seeds = {"none": bytes(32)}
    for entry in manifest["merkle"]:
        if len(entry["leaves"]) not in (1, 2, 3, 9, 10, 64):
            continue
        leaf = lambda text, length: bytes([int(text[62:], 16)]) + struct.pack("<Q", int(length)) + b"\x00"
        leaves = b"".join(leaf(*pair) for pair in entry["leaves"])
        seeds.setdefault(f"leaves_{len(entry['leaves'])}", bytes.fromhex(entry["salt_raw_hex"]) + leaves)
    for name, word in (("groups_of_nine", 1), ("groups_of_three", 4)):
        seeds[name] = bytes(32) + (bytes([word]) + struct.pack("<Q", 65_536) + b"\x1f") * 3
    seeds["sum_wraps"] = bytes(32) + (b"\x00" + b"\xff" * 8 + b"\x03") * 2
    return seeds


def hash_text(manifest):
    one = next(xorb["chunks"][0][0] for xorb in manifest["xorbs"])
    texts = {
        "chunk": one,
        "upper": one.upper(),
        "zeros": "0" * 64,
        "short": one[:63],
        "long": one + "0",
        "sign": "+" + one[1:16] + one[16:],
        "two_byte_letters": "é" * 32,
        "other_digits": one[:60] + "١1",
    }
    return {name: text.encode() for name, text in texts.items()}


def xorb_pair(manifest):
    return [xorb["chunks"][0][0] for xorb in manifest["xorbs"]][:2]


def parquet_head(_):
    """Files as they are."""
    return {path.stem: path.read_bytes() for path in sorted((VECTORS.parent / "parquet").glob("*.parquet"))}


# Programs: what the targets that invent their data read.


def chunker(_):
    """Two lengths of pieces; then a kind, a length and a byte for each run."""
    run = lambda kind, length, byte=0: struct.pack("<BHB", kind, length, byte)
    constant, noise, trigger, again = 1, 2, 3, 4
    steps = lambda *pair: struct.pack("<HH", *pair)
    gap = lambda length: run(constant, length, 7) + run(trigger, 0)
    return {
        "empty": steps(0, 0),
        "literal": steps(1, 2) + run(0, 12) + b"Hello World!",
        "constant": steps(4095, 4095) + run(constant, 65_535, 59) * 5,
        "noise": steps(999, 64) + b"".join(run(noise, 60_000, seed) for seed in range(5)),
        "long_pieces": steps(65_535, 65_535) + b"".join(run(noise, 60_000, seed) for seed in range(5, 10)),
        "smallest": steps(62, 63) + gap(8192 - 64) * 6,
        "too_early": steps(63, 0) + gap(8191 - 64) * 6,
        "largest": steps(8191, 0) + (gap(65_535) + gap(131_072 - 65_535 - 128)) * 2,
        "too_late": steps(8192, 130) + (gap(65_535) + gap(131_073 - 65_535 - 128)) * 2,
        "triggers": steps(100, 1000) + run(trigger, 0) + run(again, 60_000, 63) * 4,
        "short_period": steps(5000, 1) + run(noise, 37, 1) + run(again, 65_000, 36) * 4,
    }


def sha256_many(_):
    """The length of each message, in 13 bits."""
    lens = lambda *numbers: struct.pack(f"<{len(numbers)}H", *numbers)
    return {
        "few": lens(0, 55, 56, 63, 64, 65, 1000),
        "equal": lens(*[4096] * 16),
        "ascending": lens(*range(50, 130)),
        "descending": lens(*range(8190, 0, -130)),
        "one_long": lens(*range(20), 8191, *range(20, 40)),
    }


def plan(_):
    """Sound: asked start, length - 1, whether; xorbs - 1; for each its chunks - 1 and their lengths - 1; terms."""

    def sound(start, length, asked, xorbs, terms):
        seed = struct.pack("<BHHBB", 1, start, length - 1, asked, len(xorbs) - 1)
        for lengths in xorbs:
            seed += bytes([len(lengths) - 1]) + bytes(length - 1 for length in lengths)
        return seed + b"".join(struct.pack("<BII", xorb, first, count - 1) for xorb, first, count in terms)

    def hostile(start, end, xorbs, terms):
        seed = struct.pack("<BQBQB", 0, start, 1, end, len(xorbs))
        for stored, raw in xorbs:
            for ends in (stored, raw):
                seed += bytes([len(ends)]) + struct.pack(f"<{len(ends)}I", *ends)
        return seed + b"".join(struct.pack("<BIII", *term) for term in terms)

    xorbs = [[10, 200, 1, 30], [256], [5, 5, 5, 5, 5, 5]]
    terms = [(0, 0, 4), (2, 1, 2), (1, 0, 1), (2, 4, 2), (0, 1, 1), (2, 2, 3)]
    ends = ([18, 226, 235, 270], [10, 210, 211, 241])
    most = 2**32 - 1
    return {
        "whole": sound(0, 1, 0, xorbs, terms),
        "middle": sound(205, 300, 1, xorbs, terms),
        "one_byte": sound(241, 1, 1, xorbs, terms),
        "past_end": sound(60_000, 9, 1, xorbs, terms),
        "empty_file": sound(0, 100, 1, xorbs, []),
        "agrees": hostile(3, 300, [ends], [(0, 0, 4, 241), (0, 1, 3, 201)]),
        "descends": hostile(0, 300, [([9, 8, 7], [50, 20, 60])], [(0, 0, 3, 60), (0, 1, 3, 10)]),
        "large": hostile(1, 2**64 - 1, [([most] * 3, [most] * 3)], [(0, 0, 3, most), (0, 2, most, most)] * 3),
        "backwards": hostile(9, 3, [ends], [(0, 2, 1, 5), (7, 0, 1, 10)]),
    }


# Texts, as clients and servers send them.


def http_range(_):
    size = lambda number: struct.pack("<Q", number)
    return {
        "bounded": size(1000) + b"bytes=0-499",
        "list": size(1000) + b" bytes=1-1 ,, 900-,\t-7, 0-18446744073709551614",
        "suffix": size(5) + b"Bytes=-18446744073709551615",
        "open": size(2**64 - 1) + b"bytes=18446744073709551615-",
        "seventeen": size(100) + b"bytes=" + b",".join(b"%d-%d" % (i, i) for i in range(17)),
        "backwards": size(0) + b"bytes=5-3",
        "content": size(0) + b"bytes 0-499/1234",
        "content_star": size(0) + b"bytes 7-7/*",
        "content_none": size(0) + b"bytes */1234",
    }


def routes_query(manifest):
    one, two = xorb_pair(manifest)
    texts = {
        "one": f"file_id={one}",
        "two": f"file_id={one}&file_id={two.upper()}",
        "others": f"x=1&&file_id&a=b&file_id={two}&file_id=",
        "many": "&".join([f"file_id={one}"] * 17),
        "revision": "refs/pr/1",
        "escapes": "b é/%2F?#&",
    }
    return {name: text.encode() for name, text in texts.items()}


def multipart(_):
    head = b'multipart/byteranges; boundary="SEP"\n'
    part = lambda first, data: (
        b"--SEP\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes %d-%d/100\r\n\r\n%s\r\n"
        % (first, first + len(data) - 1, data)
    )
    two = part(0, b"hello") + part(10, b"\r\n--SEP--") + b"--SEP--\r\n"
    return {
        "two_parts": head + two,
        "preamble": b"multipart/byteranges;charset=x; boundary=a_b\nignored\r\n"
        + two.replace(b"--SEP\r", b"--a_b \r").replace(b"\r\n--SEP--\r\n", b"\r\n--a_b--"),
        "no_parts": head + b"--SEP--",
        "no_end": head + part(0, b"hello"),
        "bare_newlines": head + b"--SEP\ncontent-range:bytes 5-5/*\n\nx\r\n--SEP--",
        "unsatisfied": head + b"--SEP\r\nContent-Range: bytes */9\r\n\r\n",
        "too_long": head + b"--SEP\r\nContent-Range: bytes 0-18446744073709551615/*\r\n\r\nx\r\n--SEP--",
    }


def wire_frames(_):
    """The first byte is the length of the pieces."""
    lines = [
        '{"type":"validating","verified":1,"total":3}\n\n',
        '{"type":"committing","stage":"uploading"}\r\n',
        '{"type":"committing","stage":"polishing"}\n',
        '{"type":"heartbeat","of":{"what":[1,2]}}\n  \n',
    ]
    texts = {
        "result": "".join(lines) + '{"type":"result","result":1}',
        "no_end": "".join(lines),
        "error": lines[0] + '{"type":"error","message":"busy \\u00e9\\n","retryable":true}\n',
        "result_from_later": '{"type":"result","result":{"state":9}}\n',
        "broken": lines[1] + '{"type":\n"result"}',
        "no_type": '{"verified":1}\n',
    }
    return {name: b"\x07" + text.encode() for name, text in texts.items()}


def wire_json(manifest):
    one, two = xorb_pair(manifest)
    span = lambda start, end: {"start": start, "end": end}
    terms = [
        {"hash": one.upper(), "unpacked_length": 263873, "range": span(0, 4)},
        {"hash": two, "unpacked_length": 143890, "range": span(3, 5), "note": None},
    ]
    info = lambda end, last: {"range": span(0, end), "url": "https://data.example/a?x=1", "url_range": span(0, last)}
    fetch_info = {one: [info(4, 131071)], two: [info(2, 9), info(6, 65670)]}
    ranges = [{"chunks": span(0, 1), "bytes": span(0, 9)}, {"chunks": span(3, 6), "bytes": span(20, 99)}]
    xorbs = {one: [{"url": "u", "ranges": [{"chunks": span(0, 4), "bytes": span(0, 9)}]}], two: [{"url": "v", "ranges": ranges}]}
    node = {"hash": one, "size": 77}
    subtree = {"nodes": [node, node], "levels": [[1, 0], [0, 1]], "at_start": True, "at_end": False}
    bodies = {
        "v1": {"offset_into_first_range": 7, "terms": terms, "fetch_info": fetch_info},
        "v1_empty": {"offset_into_first_range": 0, "terms": [], "fetch_info": {}},
        "v2": {"offset_into_first_range": 7, "terms": terms, "xorbs": xorbs, "new": {}},
        "batch": {"files": {one: terms, two: []}, "fetch_info": fetch_info},
        "file_keys": [{"prefix": "default", "hash": one}, {"prefix": "", "hash": two}],
        "chunk_hashes": {
            "totalChunks": 9,
            "fileSize": 600_000,
            "windows": [{"dirtyByteRange": [8192, 70_000]}],
            "hashRanges": [subtree, None],
            "gapVerification": [one],
        },
        "xorb": {"was_inserted": True},
        "shard": {"result": 1},
        "token": {"casUrl": "https://cas.example", "accessToken": "t", "exp": 1_900_000_000},
        "error": {"error": "no such file", "code": "not_found"},
        "telemetry": {
            "time": "2026-01-02T03:04:05Z",
            "event": "xet_upload_summary",
            "userAgent": "hf",
            "metrics": {"bytes": 1.5e300, "files": 3},
        },
    }
    return {name: json.dumps(body, separators=(",", ":")).encode() for name, body in bodies.items()}


def distinct(seeds):
    """Without those that say the same again."""
    return {name: seed for seed, name in {seed: name for name, seed in reversed(seeds.items())}.items()}


if __name__ == "__main__":
    main()
