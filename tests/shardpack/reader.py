#!/usr/bin/env python3
"""Reads packs in plain Python, from docs/format/shardpack.md alone, and compares them with what was put in.

    python3 tests/shardpack/reader.py path/to/shardpack

It shares no code with the Rust reader: where both misread the page in the same way, only the page can tell. Packs are made
with the command line; those in testdata/shardpack are read as they are. Ends with `shardpack reader: N passed, M failed`.
"""

import gzip
import io
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hashes import blake3, crc32c, xxh3_64  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TESTDATA = HERE.parent.parent / "testdata" / "shardpack" / "v1"
TYPES = {
    1: "application/octet-stream", 2: "image/jpeg", 3: "image/png", 4: "application/json", 5: "application/msgpack",
    6: "application/x-npy", 7: "application/x-npz", 8: "text/plain", 9: "image/webp", 10: "audio/wav", 11: "audio/flac",
    12: "video/mp4",
}


class Damaged(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Damaged(what)


def up8(n):
    return -(-n // 8) * 8


def zero(b, start, end):
    need(not any(b[start:end]), "padding is not zero at %d" % start)


def read_record(b, at):
    """Key, metadata, flags and entries of the record at `at`, and where it ends."""
    size, magic, header_crc, count, meta_len, key_len, meta_format, flags, _ = struct.unpack_from("<Q4sIIIHBBI", b, at)
    need(magic == b"SPR\x01", "no record at %d" % at)
    need(size % 8 == 0 and at + size <= len(b), "record size at %d" % at)
    strings = at + 32 + key_len + meta_len
    need(crc32c(b[at : at + 12], b[at + 16 : strings]) == header_crc, "record header crc at %d" % at)
    key, meta = b[at + 32 : at + 32 + key_len].decode(), b[at + 32 + key_len : strings]
    p = up8(strings)
    zero(b, strings, p)
    entries = []
    for _ in range(count):
        file_size, stored, data_crc, header_crc, name_len, type_len, compression, code, pad = struct.unpack_from("<QQIIHHBBH", b, p)
        strings = p + 32 + name_len + type_len
        need(crc32c(b[p : p + 20], b[p + 24 : strings]) == header_crc, "entry header crc at %d" % p)
        name = b[p + 32 : p + 32 + name_len].decode()
        content_type = TYPES[code] if code else b[p + 32 + name_len : strings].decode()
        start = strings + pad
        zero(b, strings, start)
        need(start % 8 == 0, "data at %d" % start)
        data = b[start : start + stored]
        need(len(data) == stored and crc32c(data) == data_crc, "data crc of %s in %s" % (name, key))
        content = decode(compression, data, file_size)
        need(len(content) == file_size, "content size of %s in %s" % (name, key))
        entries.append((name, content_type, content, compression, start))
        p = up8(start + stored)
        zero(b, start + stored, p)
    need(p <= at + size and at + size - p < 4096, "record end at %d" % p)
    zero(b, p, at + size)
    return key, meta, meta_format, flags, entries, at + size


def decode(compression, data, size):
    if compression == 0:
        return data
    if compression == 1:
        return gzip.GzipFile(fileobj=io.BytesIO(data)).read()
    if compression == 2:
        return lz4_frames(data)
    if compression == 3:
        return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    raise Damaged("compression %d" % compression)


def lz4_frames(data):
    out, p = bytearray(), 0
    while p < len(data):
        need(data[p : p + 4] == b"\x04\x22\x4d\x18", "lz4 magic")
        flags = data[p + 4]
        p += 6 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0) + 1
        begin = len(out)
        while True:
            (length,) = struct.unpack_from("<I", data, p)
            p += 4
            if length == 0:
                break
            block = data[p : p + (length & 0x7FFFFFFF)]
            p += len(block) + (4 if flags & 16 else 0)
            if length & 0x80000000:
                out += block
            else:
                # Blocks are independent when bit 5 is set; then a match reaches no further back than the block.
                lz4_block(block, out, len(out) if flags & 32 else begin)
        p += 4 if flags & 4 else 0
    return bytes(out)


def lz4_block(block, out, begin):
    p = 0

    def more(n):
        nonlocal p
        while n >= 15:
            n += block[p]
            p += 1
            if block[p - 1] != 255:
                break
        return n

    while p < len(block):
        token = block[p]
        p += 1
        literals = more(token >> 4)
        out += block[p : p + literals]
        p += literals
        if p >= len(block):
            break
        offset = block[p] | block[p + 1] << 8
        p += 2
        length = more(token & 15) + 4
        need(0 < offset <= len(out) - begin, "lz4 offset")
        for _ in range(length):
            out.append(out[-offset])


def read_tail(b):
    """Offsets and sections."""
    footer = b[-64:]
    index, index_size, count, size, index_crc, sections_crc, major, minor, features, _, footer_crc = struct.unpack_from("<QQQQIIHHIII", footer)
    need(footer[56:] == b"\x89SPK\r\n\x1a\n" and crc32c(footer[:52], footer[56:]) == footer_crc, "footer")
    need((major, size, index + index_size) == (1, len(b), len(b) - 64), "footer numbers")
    tail_size, magic, marker_crc = struct.unpack_from("<Q4sI", b, index - 16)
    need(magic == b"SPI\x01" and crc32c(b[index - 16 : index - 4]) == marker_crc and tail_size == len(b) - index + 16, "end marker")
    sections_at = index + 8 + 8 * count
    need(struct.unpack_from("<Q", b, index)[0] == count and crc32c(b[index:sections_at]) == index_crc, "index")
    need(crc32c(b[sections_at:-64]) == sections_crc, "sections")
    offsets = struct.unpack_from("<%dQ" % count, b, index + 8)
    sections, p = {}, sections_at
    while p < len(b) - 64:
        kind, flags, length, crc, _ = struct.unpack_from("<IIQII", b, p)
        payload = b[p + 24 : p + 24 + length]
        need(crc32c(payload) == crc, "section %d" % kind)
        need(1 <= kind <= 8 or not flags & 1, "critical section %d" % kind)
        sections.setdefault(kind, payload)
        p += 24 + up8(length)
    return offsets, sections, features, index - 16


def read_pack(b):
    """All records of a pack, after comparing everything the page says with everything else."""
    offsets, sections, features, end = read_tail(b)
    records, at = [], 0
    while at < end:
        need(at == offsets[len(records)], "offset of record %d" % len(records))
        key, meta, meta_format, flags, entries, at = read_record(b, at)
        records.append((key, meta, meta_format, flags, entries))
    need((at, len(records)) == (end, len(offsets)), "end of records")
    keys = [record[0].encode() for record in records]
    if 3 in sections:
        hashes = struct.unpack("<%dQ" % len(keys), sections[3])
        need(all(len(key) > 240 or xxh3_64(key) == found for key, found in zip(keys, hashes)), "key hashes")
        order = struct.unpack("<%dI" % len(keys), sections[4])
        need(list(order) == sorted(range(len(keys)), key=lambda n: (hashes[n], n)), "key order")
    if 5 in sections:
        need(sections[5][:32] == blake3(b"".join(struct.pack("<I", len(key)) + key for key in keys)), "key digest")
    if 7 in sections:
        starts = list(offsets) + [end]
        digests = b"".join(blake3(b[starts[n] : starts[n + 1]]) for n in range(len(keys)))
        need(sections[7] == digests, "record digests")
    if 6 in sections:
        check_directory(b, offsets, sections[6], records)
    if 8 in sections:
        stated = json.loads(sections[8])
        payload = sum(len(entry[2]) for record in records for entry in record[4])
        need((stated["records"], stated["payload_bytes"]) == (len(records), payload), "statistics")
    need(not features & 1 or len(set(keys)) == len(keys), "unique keys")
    need(not features & 2 or keys == sorted(keys), "sorted keys")
    return records, sections


def check_directory(b, offsets, payload, records):
    numbers = struct.unpack("<%dQ" % (len(payload) // 8), payload)
    entries, frames = numbers[:2]
    first_entries = numbers[2 : 3 + len(offsets)]
    headers = numbers[3 + len(offsets) :][:entries]
    first_frames = numbers[3 + len(offsets) + entries :][: entries + 1]
    table = numbers[3 + len(offsets) + 2 * entries + 1 :]
    need(len(table) == 2 * frames and first_entries[-1] == entries and first_frames[-1] == frames, "directory")
    n = 0
    for number, record in enumerate(records):
        need(first_entries[number] == n, "first entry")
        for name, _, content, compression, start in record[4]:
            at = offsets[number] + headers[n]
            name_len = struct.unpack_from("<H", b, at + 24)[0]
            need(b[at + 32 : at + 32 + name_len].decode() == name, "entry header in the directory")
            stored = struct.unpack_from("<Q", b, at + 8)[0]
            of_entry = [(table[2 * f], table[2 * f + 1]) for f in range(first_frames[n], first_frames[n + 1])]
            if of_entry:
                content_at, stored_at = of_entry[-1]
                last = decode(compression, b[start + stored_at : start + stored], 0)
                need(last == content[content_at:], "the last frame of %s" % name)
            n += 1


def main():
    binary = os.path.abspath(sys.argv[1])
    passed = failed = 0

    def test(what, run):
        nonlocal passed, failed
        try:
            run()
            passed += 1
        except Exception as error:  # noqa: BLE001
            failed += 1
            print("FAILED %s: %s: %s" % (what, type(error).__name__, error))

    work = pathlib.Path(tempfile.mkdtemp())
    try:
        test("hashes are those of published vectors", check_hashes)
        files = make_files(work / "in")
        methods = ["none", "gzip", "lz4"] + (["zstd", "auto"] if shutil.which("zstd") else [])
        for method in methods:
            for extra in ([], ["--align", "4096"], ["--digests", "--chunk", "1000"]):
                test("%s %s" % (method, extra), lambda m=method, e=extra: check_created(binary, work, files, m, e))
        test("a pack of large records", lambda: check_large(binary, work, "lz4"))
        test("a changed byte", lambda: check_flips(binary, work))
        for path in sorted(TESTDATA.glob("*.shardpack")):
            if path.stem == "zstd" and not shutil.which("zstd"):
                continue
            test(path.name, lambda p=path: check_golden(p))
        if not shutil.which("zstd"):
            print("skipped: zstd, there is no zstd command")
    finally:
        shutil.rmtree(work)
    print("shardpack reader: %d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)


def check_hashes():
    need(crc32c(b"123456789") == 0xE3069283, "crc32c")
    need(blake3(b"").hex().startswith("af1349b9f5f9a1a6a0404dea36dcc949"), "blake3 of nothing")
    need(xxh3_64(b"") == 0x2D06800538D394C2, "xxh3 of nothing")


def make_files(root):
    rng = random.Random(7)
    files = {}
    for n in range(25):
        files["images%d/image%06d.left.jpg" % (n % 3, n)] = rng.randbytes(rng.randrange(0, 900))
        files["images%d/image%06d.meta.json" % (n % 3, n)] = json.dumps({"n": n, "text": "word " * (n * 17)}).encode()
        if n % 4 == 0:
            files["images%d/image%06d.own" % (n % 3, n)] = b"x" * (n * 313)
    files["a folder/with spaces/é日本.txt"] = "grüße".encode() * 50
    files["README"] = b"no dot"
    for length in (1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 64, 128, 129, 160, 200, 239):
        files["k" * length + ".txt"] = b"%d" % length
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files


def create(binary, work, args, source="in"):
    out = work / "out.shardpack"
    subprocess.run([binary, "create", "--input", str(work / source), "--output", str(out), *args], check=True, stdout=subprocess.DEVNULL)
    return out.read_bytes()


def check_created(binary, work, files, method, extra):
    b = create(binary, work, ["--compression", method, "--metadata", "creator=me", "training=true", *extra])
    records, sections = read_pack(b)
    need(json.loads(sections[1]) == {"creator": "me", "training": "true"}, "metadata")
    got = {}
    for key, _, _, _, entries in records:
        for name, content_type, content, compression, start in entries:
            base = key.rsplit("/", 1)[-1]
            got[key if name == base else key + "." + name] = content
            need(method != "none" or compression == 0, "compression")
            need("--align" not in extra or start % 4096 == 0, "alignment")
            need(not name.endswith("jpg") or content_type == "image/jpeg", "content type")
    need(got == files, "files")
    used = {entry[3] for record in records for entry in record[4]}
    need(method == "none" or len(used) > 1, "%s was used" % method)


def check_large(binary, work, method):
    root = work / "large"
    root.mkdir()
    text = " ".join(str(n) for n in range(120_000)).encode()
    for n in range(2):
        (root / ("%d.txt" % n)).write_bytes(text)
        (root / ("%d.bin" % n)).write_bytes(random.Random(n).randbytes(900_000))
    b = create(binary, work, ["--compression", method, "--chunk", "100000"], "large")
    records, sections = read_pack(b)
    need(6 in sections and len(records) == 2, "directory")


def check_flips(binary, work):
    root = work / "small"
    root.mkdir()
    (root / "a.txt").write_bytes(b"hello hello")
    (root / "b.json").write_bytes(b"{}")
    b = create(binary, work, [], "small")
    read_pack(b)
    for at in range(len(b)):
        c = bytearray(b)
        c[at] ^= 1 << (at % 8)
        try:
            read_pack(bytes(c))
        except (Damaged, struct.error, UnicodeDecodeError, IndexError, KeyError):
            continue
        raise Damaged("a change at %d is not seen" % at)


def check_golden(path):
    records, _ = read_pack(path.read_bytes())
    expected = json.loads(path.with_suffix(".json").read_text())
    got = [[record[0], [[entry[0], entry[1], blake3(entry[2]).hex()] for entry in record[4]]] for record in records]
    need(got == expected, "records of %s" % path.name)


if __name__ == "__main__":
    main()
