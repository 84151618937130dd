"""Makes the files of this folder with pyarrow: python3 make.py. They are golden: they stay as they are when pyarrow changes."""

import datetime
import decimal
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
ROWS = 23


def holes(values):
    """Every fifth is missing."""
    return [None if n % 5 == 3 else value for n, value in enumerate(values)]


def all_types():
    day, now = datetime.date(1969, 12, 30), datetime.datetime(2024, 2, 29, 23, 59, 58, 123456)
    fixed = [uuid.UUID(int=n).bytes for n in range(ROWS)]
    return pa.table({
        "flag": pa.array(holes([n % 3 == 0 for n in range(ROWS)])),
        "i32": pa.array([n - 3 for n in range(ROWS)], pa.int32()),
        "i64": pa.array(holes([(n - 3) * 10**12 for n in range(ROWS)]), pa.int64()),
        "u8": pa.array([n + 230 for n in range(ROWS)], pa.uint8()),
        "u64": pa.array([2**64 - 1 - n for n in range(ROWS)], pa.uint64()),
        "f32": pa.array([n / 4 for n in range(ROWS)], pa.float32()),
        "f64": pa.array(holes([n * 1e300 for n in range(ROWS)]), pa.float64()),
        "text": pa.array(holes([f"stone é {n % 4}" for n in range(ROWS)])),
        "bytes": pa.array([bytes([n, 255, 0]) * 9 for n in range(ROWS)], pa.binary()),
        "uuid": pa.array(fixed, pa.binary(16)),
        "date": pa.array([day + datetime.timedelta(n) for n in range(ROWS)]),
        "time": pa.array([n * 1_000_001 for n in range(ROWS)], pa.time64("us")),
        "local": pa.array([now + datetime.timedelta(hours=n) for n in range(ROWS)], pa.timestamp("us")),
        "utc": pa.array([n * 1000 - 1 for n in range(ROWS)], pa.timestamp("ms", "UTC")),
        "nanos": pa.array([-n for n in range(ROWS)], pa.timestamp("ns")),
        "dec": pa.array(holes([decimal.Decimal(n - 5).scaleb(-2) for n in range(ROWS)]), pa.decimal128(20, 2)),
        "folder": pa.array([None if n == 2 else {"inner": None if n == 1 else n} for n in range(ROWS)]),
        "list": pa.array([[n, n] for n in range(ROWS)]),
        "nothing": pa.nulls(ROWS, pa.string()),
    })


def main():
    table = all_types()
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        pq.write_table(table, HERE / f"v1_{codec}.parquet", compression=codec, write_statistics=False)
    pq.write_table(table, HERE / "v2_zstd.parquet", compression="zstd", data_page_version="2.0", use_dictionary=["text", "dec"])
    small = table.select(["i32", "text", "flag"])
    pq.write_table(small, HERE / "plain.parquet", compression="none", use_dictionary=False, data_page_size=20, write_batch_size=4)
    other = pa.table({"delta": table["i64"], "split": table["f32"], "stamp": table["nanos"]})
    pq.write_table(other, HERE / "others.parquet", use_dictionary=False, use_deprecated_int96_timestamps=True,
                   column_encoding={"delta": "DELTA_BINARY_PACKED", "split": "BYTE_STREAM_SPLIT"})
    pq.write_table(small.slice(0, 3), HERE / "brotli.parquet", compression="brotli")
    groups = pq.ParquetWriter(HERE / "groups.parquet", small.schema)
    for part in (small.slice(0, 0), small.slice(5, 2), small.slice(0, 23)):
        groups.write_table(part)
    groups.close()


main()
