#!/usr/bin/env python3
"""Checks that retired words stay out of identifiers, module names, comments, user-visible strings and documents.

usage: check-words.py [--self-test] [PATH...]

PATH is a file or a directory of this repository; without one, everything that git tracks is checked. CONTRIBUTING.md says which
words to write instead. A line that has to contain a retired word, because a wire format, a database or an old
setting has it, is listed in `scripts/retired-words-allowed.txt`: `FILE: WORD`, where FILE may be a pattern.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "scripts" / "retired-words-allowed.txt"

# Retired parts of identifiers, and what to write instead.
IDENTIFIERS = {
    "asked": "request, query, Preflight", "told": "reported, FileOutcome", "said": "given, configured", "tell": "report", "tells": "reports",
    "deed": "audit event", "deeds": "audit events", "house": "data directory", "door": "listener", "rooms": "inner, buffer pool",
    "shelf": "queue", "lane": "reader", "laid": "recipe", "lay": "push", "doomed": "condemned, expired", "kept": "cached, stored",
    "keeping": "quotas, retention", "care": "maintenance", "placed": "stored, located", "placing": "placement", "mend": "repair",
    "mended": "repaired", "mends": "repairs", "stranger": "untrusted", "strangers": "untrusted", "whoever": "caller",
    "somebody": "caller, user", "shown": "displayed", "wanted": "requested", "linger": "drain", "lingering": "drain", "outbox": "queue",
    "thing": "representation, item", "things": "items", "ask": "query, request", "asks": "queries", "looks": "reads",
}
# Retired phrases of comments, documents and user-visible texts.
PHRASES = {
    r"whoever": "the caller, the operator", r"somebody": "a user, a caller", r"strangers?": "untrusted input, a remote peer",
    r"the other side": "the server, the peer", r"so many": "at most N", r"wants? to know": "reads, queries", r"deeds?": "audit event",
    r"(?:is|are|was|were|been|be|not)\s+told|told (?:of|about|apart)": "reported", r"tells (?:of|about|whether|how|what|who|which)": "returns, reports",
    r"(?:is|are|was|were|been|be) (?:looked at|looked into)|looks? (?:at|into|again)": "read, check", r"(?:lets?|letting) go": "delete, release",
    r"puts? aside|putting aside": "stage, reserve", r"(?:its|their) time is up": "expired", r"have back": "restore", r"mend(?:s|ed|ing)?": "repair",
    r"go(?:es)? again": "retry", r"no ordinary file": "not a regular file", r"the house|the door|the deed": "data directory, listener, audit event",
    r"taken? in": "accept, store", r"is asked|are asked|was asked|were asked|asks? (?:for|of|again|the|whether|about)": "query, request",
    r"keeps? the server": "administrator", r"people who|who(?:soever)? asks": "users, the caller", r"from then on": "afterwards",
}
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
TOKEN = re.compile(
    r"""(?P<line>//[^\n]*) | (?P<block>/\*.*?\*/) | r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes) | b?"(?P<string>(?:\\.|[^"\\])*)" |
        b?'(?:\\.[^']*|[^'\\])' | '\w+ | (?P<name>[A-Za-z_]\w*) | \S""",
    re.VERBOSE | re.DOTALL,
)
PHRASE = re.compile(r"\b(?:" + "|".join(f"(?P<p{i}>{text})" for i, text in enumerate(PHRASES)) + r")\b", re.IGNORECASE)
SKIP = ("testdata/*", "docs/operations/benchmarks*.md", "bench/results/*", "Cargo.lock", "scripts/check-words.py", "scripts/retired-words-allowed.txt",
        "CONTRIBUTING.md", "LICENSE*")


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    paths = [pathlib.Path(path).resolve() for path in sys.argv[1:] if not path.startswith("-")]
    problems = []
    for file in tracked(paths):
        problems += check(file, (ROOT / file).read_text(errors="replace"))
    allowed, used = read_allowed(), set()
    left = []
    for file, line, word, instead in problems:
        entry = next((entry for entry in allowed if fnmatch.fnmatch(file, entry[0]) and entry[1] == word), None)
        if entry:
            used.add(entry)
        else:
            left.append(f"{file}:{line}: `{word}` is retired; write: {instead}")
    if not paths:
        left += [f"{ALLOWED.name}: `{file}: {word}` allows what is not there any more" for file, word in allowed if (file, word) not in used]
    print("\n".join(left + [f"check-words: {len(left)} problems"]))
    return 1 if left else 0


def tracked(paths):
    """Files of the repository below `paths` whose words are checked."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md", "*.py", "*.pyi", "*.sh", "*.mjs", "*.js", "*.html", "*.toml"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for file in sorted(set(filter(None, listed))):
        path = ROOT / file
        if not path.exists() or any(fnmatch.fnmatch(file, skip) for skip in SKIP):
            continue
        if not paths or any(path == place or place in path.parents for place in paths):
            yield file


def check(file, text):
    """Retired words in a file: tuples of file, line, word and what to write instead."""
    problems = []
    parts = re.split(r"[/_.-]", file)
    problems += [(file, 1, part, IDENTIFIERS[part]) for part in parts if part in IDENTIFIERS]
    if not file.endswith(".rs"):
        return problems + phrases(file, text, 1)
    line, at = 1, 0
    comment, comment_line = [], 0
    for token in TOKEN.finditer(text):
        gap = text[at : token.start()]
        line += gap.count("\n")
        prose = token["line"] or token["block"]
        if comment and (not prose or gap.count("\n") > 1):
            problems += phrases(file, "\n".join(comment), comment_line)
            comment = []
        if prose:
            comment_line = comment_line if comment else line
            comment += re.sub(r"^\s*(//[/!]?|/?\*+/?)", "", prose, flags=re.MULTILINE).split("\n")
        elif token["name"]:
            for word in WORD.findall(token["name"]):
                if word.lower() in IDENTIFIERS:
                    problems.append((file, line, word.lower(), IDENTIFIERS[word.lower()]))
        elif token["string"] or token["raw"]:
            problems += phrases(file, token["string"] or token["raw"], line)
        line += token[0].count("\n")
        at = token.end()
    return problems + phrases(file, "\n".join(comment), comment_line)


def phrases(file, text, line):
    problems = []
    flat = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), text)
    flat = re.sub(r"\n", " ", flat)
    for found in PHRASE.finditer(flat):
        instead = list(PHRASES.values())[int(found.lastgroup[1:])]
        problems.append((file, line + text.count("\n", 0, found.start()), found[0].lower(), instead))
    return problems


def read_allowed():
    if not ALLOWED.exists():
        return []
    lines = (line.split("#")[0].strip() for line in ALLOWED.read_text().splitlines())
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines if line]


def self_test():
    found = check("crates/a/src/door.rs", "/// Whoever\n/// asks for it, is\n/// told.\nfn house_of(x: AskedFor) -> u8 { \"so many\"; 'r' }\n// `somebody` fine\n")
    words = [(line, word) for _, line, word, _ in found]
    expected = [(1, "door"), (1, "whoever"), (2, "asks for"), (2, "is  told"), (4, "house"), (4, "asked"), (4, "so many")]
    assert words == expected, words
    assert check("docs/a.md", "Plain words.\n\nA stranger.")[0][1:3] == (3, "stranger")
    print("check-words: the planted words were found, and no others")
    return 0


if __name__ == "__main__":
    sys.exit(main())
