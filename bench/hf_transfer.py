"""Uploads or downloads files with hf_xet and prints what that cost the client. Started by servers.py.

Reads one JSON object from stdin: {"verb": "upload", "url", "token", "expires_s", "paths"} or
{"verb": "download", "url", "token", "expires_s", "folder", "files": [[hash, bytes], …]}.
"""

import json
import resource
import sys
import time
import warnings

warnings.simplefilter("ignore")
import hf_xet


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def upload(job, access):
    infos = hf_xet.upload_files(job["paths"], job["url"], access, None, None, None)
    return [[info.hash, info.file_size] for info in infos]


def download(job, access):
    wanted = [
        hf_xet.PyXetDownloadInfo(f"{job['folder']}/{number}", file_hash, file_bytes)
        for number, (file_hash, file_bytes) in enumerate(job["files"])
    ]
    hf_xet.download_files(wanted, job["url"], access, None, None)
    return job["files"]


job = json.load(sys.stdin)
access = (job["token"], job["expires_s"])
cpu_before, wall_before = cpu_s(), time.monotonic()
files = {"upload": upload, "download": download}[job["verb"]](job, access)
wall_after, cpu_after = time.monotonic(), cpu_s()
rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
json.dump({"cpu_s": cpu_after - cpu_before, "wall_s": wall_after - wall_before, "rss_mib": rss_mib, "files": files}, sys.stdout)
