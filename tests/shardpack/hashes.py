"""CRC-32C, XXH3-64 (keys up to 240 bytes) and BLAKE3 in plain Python, written from their specifications."""

import struct

M64 = (1 << 64) - 1


def _table():
    rows = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        rows.append(n)
    return rows


_CRC = _table()


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for part in parts:
        for byte in part:
            crc = _CRC[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PMX_1, PMX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def _u32(b, at):
    return struct.unpack_from("<I", b, at)[0]


def _u64(b, at):
    return struct.unpack_from("<Q", b, at)[0]


def _swap64(x):
    return int.from_bytes(x.to_bytes(8, "little"), "big")


def _rot64(x, n):
    return ((x << n) | (x >> (64 - n))) & M64


def _avalanche(h):
    h ^= h >> 37
    h = h * PMX_1 & M64
    return h ^ (h >> 32)


def _xxh64_avalanche(h):
    h ^= h >> 33
    h = h * P64_2 & M64
    h ^= h >> 29
    h = h * P64_3 & M64
    return h ^ (h >> 32)


def _fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def _mix16(data, at, secret_at):
    return _fold(_u64(data, at) ^ _u64(SECRET, secret_at), _u64(data, at + 8) ^ _u64(SECRET, secret_at + 8))


def xxh3_64(data):
    n = len(data)
    if n == 0:
        return _xxh64_avalanche(_u64(SECRET, 56) ^ _u64(SECRET, 64))
    if n <= 3:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        return _xxh64_avalanche(combined ^ (_u32(SECRET, 0) ^ _u32(SECRET, 4)))
    if n <= 8:
        value = _u32(data, n - 4) + (_u32(data, 0) << 32)
        h = value ^ (_u64(SECRET, 8) ^ _u64(SECRET, 16))
        h ^= _rot64(h, 49) ^ _rot64(h, 24)
        h = h * PMX_2 & M64
        h ^= (h >> 35) + n
        h = h * PMX_2 & M64
        return h ^ (h >> 28)
    if n <= 16:
        low = _u64(data, 0) ^ (_u64(SECRET, 24) ^ _u64(SECRET, 32))
        high = _u64(data, n - 8) ^ (_u64(SECRET, 40) ^ _u64(SECRET, 48))
        return _avalanche((n + _swap64(low) + high + _fold(low, high)) & M64)
    acc = n * P64_1 & M64
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += _mix16(data, 16 * i, 32 * i) + _mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return _avalanche(acc & M64)
    if n <= 240:
        for i in range(8):
            acc += _mix16(data, 16 * i, 16 * i)
        acc = _avalanche(acc & M64)
        for i in range(8, n // 16):
            acc += _mix16(data, 16 * i, 16 * (i - 8) + 3)
        acc += _mix16(data, n - 16, 136 - 17)
        return _avalanche(acc & M64)
    raise ValueError("keys of more than 240 bytes are not hashed here")


IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


def _compress(value, block, counter, length, flags):
    m = list(struct.unpack("<16I", block))
    v = list(value) + list(IV[:4]) + [counter & 0xFFFFFFFF, counter >> 32, length, flags]

    def g(a, b, c, d, x, y):
        v[a] = (v[a] + v[b] + x) & 0xFFFFFFFF
        t = v[d] ^ v[a]
        v[d] = (t >> 16 | t << 16) & 0xFFFFFFFF
        v[c] = (v[c] + v[d]) & 0xFFFFFFFF
        t = v[b] ^ v[c]
        v[b] = (t >> 12 | t << 20) & 0xFFFFFFFF
        v[a] = (v[a] + v[b] + y) & 0xFFFFFFFF
        t = v[d] ^ v[a]
        v[d] = (t >> 8 | t << 24) & 0xFFFFFFFF
        v[c] = (v[c] + v[d]) & 0xFFFFFFFF
        t = v[b] ^ v[c]
        v[b] = (t >> 7 | t << 25) & 0xFFFFFFFF

    for turn in range(7):
        g(0, 4, 8, 12, m[0], m[1])
        g(1, 5, 9, 13, m[2], m[3])
        g(2, 6, 10, 14, m[4], m[5])
        g(3, 7, 11, 15, m[6], m[7])
        g(0, 5, 10, 15, m[8], m[9])
        g(1, 6, 11, 12, m[10], m[11])
        g(2, 7, 8, 13, m[12], m[13])
        g(3, 4, 9, 14, m[14], m[15])
        m = [m[i] for i in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)] + [v[i + 8] ^ value[i] for i in range(8)]


def _chunk(data, counter):
    """What the last compression of a chunk takes."""
    value = IV
    blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    for n, block in enumerate(blocks):
        flags = CHUNK_START if n == 0 else 0
        if n == len(blocks) - 1:
            return value, block.ljust(64, b"\0"), counter, len(block), flags | CHUNK_END
        value = _compress(value, block, counter, 64, flags)[:8]


def _node(data, counter):
    if len(data) <= 1024:
        return _chunk(data, counter)
    left = 1024
    while left * 2 < len(data):
        left *= 2
    values = [_compress(*_node(part, counter + at))[:8] for part, at in ((data[:left], 0), (data[left:], left // 1024))]
    return IV, struct.pack("<16I", *values[0], *values[1]), 0, 64, PARENT


def blake3(data, length=32):
    value, block, _, size, flags = _node(bytes(data), 0)
    out = b""
    counter = 0
    while len(out) < length:
        out += struct.pack("<16I", *_compress(value, block, counter, size, flags | ROOT))
        counter += 1
    return out[:length]
