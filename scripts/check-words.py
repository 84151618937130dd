#!/usr/bin/env python3
"""Checks that retired words stay out of identifiers, file names, comments, user-visible texts and documents.

usage: check-words.py [--self-test] [PATH...]

PATH is a file or a directory of this repository; without one, everything that git tracks is checked. CONTRIBUTING.md says which
words to write instead. What has to contain a retired word, because a wire format, a database, an old setting or the outside
world has it, is listed in `scripts/retired-words-allowed.txt`: `FILE: WORD`, where FILE may be a pattern.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "scripts" / "retired-words-allowed.txt"

# Parts of identifiers and of file names (`deed_json`, `DeedRow`, `deed.rs`).
PARTS = {
    "asked": "request, query, Preflight", "told": "reported, FileOutcome", "said": "given, configured", "tell": "report", "tells": "reports",
    "deed": "audit event", "deeds": "audit events", "house": "data directory", "houses": "data directories", "door": "listener",
    "rooms": "inner, buffer pool", "shelf": "queue", "shelves": "queues", "gather": "batcher, collect", "laid": "recipe", "lay": "push",
    "doomed": "condemned, expired", "kept": "cached, stored", "keeping": "quotas, retention", "care": "maintenance",
    "placed": "stored, located", "placing": "placement", "mend": "repair", "mended": "repaired", "mends": "repairs",
    "stranger": "untrusted", "strangers": "untrusted", "whoever": "caller", "somebody": "caller, user", "linger": "drain",
    "lingering": "drain", "outbox": "queue", "ask": "query, request", "asks": "queries", "look": "read, lookup", "looked": "read",
    "settle": "finalize", "settled": "finalized, fixed", "thing": "representation, item", "things": "items",
}
# Whole names of functions: a verb without its object. (`keep_alive` is fine.)
FUNCTIONS = {"place": "store_…, locate_…", "keep": "cache_…, retain_…", "note": "record_…, log_…"}
# Whole names of types: they say what happened to a value, not what it is.
TYPES = dict.fromkeys(
    "counted found gone held left listed made named parted place seen sent shown sorted taken wanted".split(), "a noun for what the value is"
)
# Phrases of comments, texts and documents.
PHRASES = {
    r"whoever|who(?:soever)? asks": "the caller, users", r"somebody": "a user, a caller", r"strangers?": "untrusted input, a remote peer",
    r"the other side": "the server, the peer", r"keeps? the server(?! \w+ing\b)": "administrator", r"so many(?! that\b)": "at most N, N",
    r"wants? to know": "reads, queries", r"deeds?": "audit event", r"the (?:house|door)": "data directory, listener",
    r"(?:is|are|was|were|been|be|not)\s+told|told (?:of|about|apart)": "reported",
    r"tells (?:of|about|whether|how|what|who|which)": "returns, reports", r"(?:is|are|was|were|been|be) said|sa(?:ys?|id) of": "given, described",
    r"(?:is|are|was|were|been|be) looked (?:at|into)|looks (?:at|into|again)": "reads, checks",
    r"(?:is|are|was|were|been|be) asked|asks? (?:of|again|whether|about)|asks for": "queries, requests",
    r"(?:lets?|letting) go": "delete, release", r"puts? aside|putting aside": "stage, reserve", r"takes? in|are taken in|is taken in": "accept, store",
    r"(?:its|their) time is up": "expired", r"has? back|have back": "restore", r"mend(?:s|ed|ing)?": "repair", r"(?:goes|comes?) again": "retry",
    r"(?:no|an) ordinary (?:file|folder|directory)": "(not) a regular file", r"(?:that|what|which) (?:is|are|was|were) (?:not )?there\b(?! (?:is|are|was|were|to)\b)": "exists, existing",
    r"(?:is|are|was|were|been|be) remembered|remembers": "cached, stored", r"known of": "known",
}
PHRASE = re.compile(r"\b(?:" + "|".join(f"(?P<p{i}>{text.replace(' ', '[ ]+')})" for i, text in enumerate(PHRASES)) + r")\b", re.IGNORECASE)
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
RUST = re.compile(
    r"""(?P<line>//[^\n]*) | (?P<block>/\*.*?\*/) | b?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes) | b?"(?P<string>(?:\\.|[^"\\])*)" |
        b?'(?:\\.[^']*|[^'\\])' | '\w+ | (?P<name>[A-Za-z_]\w*) | \S""",
    re.VERBOSE | re.DOTALL,
)
SCRIPT_NAME = re.compile(r"^[ \t]*(?:async )?(?:export )?(?:def|class|function|const|let)? ?(\w+)(?= ?(?:=|\())", re.MULTILINE)
FILES = [f"*.{end}" for end in "rs md py pyi sh mjs js html toml".split()] + ["Makefile"]
SKIP = ("testdata/*", "bench/results/*", "docs/operations/benchmarks*.md", "CONTRIBUTING.md", "scripts/check-words.py")


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    paths = [pathlib.Path(path).resolve() for path in sys.argv[1:]]
    allowed, used, problems = read_allowed(), set(), []
    for file in tracked(paths):
        for line, word, instead in check(file, (ROOT / file).read_text(errors="replace")):
            entries = [entry for entry in allowed if fnmatch.fnmatch(file, entry[0]) and entry[1] == word]
            used.update(entries)
            if not entries:
                problems.append(f"{file}:{line}: `{word}` is retired; write: {instead}")
    if not paths:
        problems += [f"{ALLOWED.name}: `{file}: {word}` allows what no file has any more" for file, word in allowed if (file, word) not in used]
    print("\n".join(problems + [f"check-words: {len(problems)} problems"]))
    return 1 if problems else 0


def tracked(paths):
    """Files of the repository below `paths` whose words are checked."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FILES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for file in sorted(set(filter(None, listed))):
        path = ROOT / file
        if path.exists() and not any(fnmatch.fnmatch(file, skip) for skip in SKIP) and (not paths or not {path, *path.parents}.isdisjoint(paths)):
            yield file


def check(file, text):
    """Retired words in a file: tuples of line, word and what to write instead."""
    problems = names(re.sub(r"[/.-]", "_", file), 1)
    if not file.endswith(".rs"):
        problems += phrases(text, 1)
        if file.endswith((".py", ".mjs", ".js")):
            for found in SCRIPT_NAME.finditer(text):
                problems += names(found[1], text.count("\n", 0, found.start(1)) + 1)
        return problems
    line, at, before = 1, 0, ""
    comment, comment_line = [], 0
    for token in RUST.finditer(text):
        newlines = text.count("\n", at, token.start())
        line += newlines
        prose = token["line"] or token["block"]
        if comment and (not prose or newlines > 1):
            problems += phrases("\n".join(comment), comment_line)
            comment = []
        if prose:
            comment_line = comment_line if comment else line
            comment.append(re.sub(r"^\s*(//[/!]?|/?\*+/?)", "", prose, flags=re.MULTILINE))
        elif token["name"]:
            problems += names(token["name"], line, before)
            before = token["name"]
        else:
            problems += phrases(token["string"] or token["raw"] or "", line)
        line += token[0].count("\n")
        at = token.end()
    return [*problems, *phrases("\n".join(comment), comment_line)]


def names(name, line, before=""):
    """Retired words in one identifier, which stands after the word `before`."""
    whole = FUNCTIONS if before == "fn" else TYPES if before in ("struct", "enum", "type", "trait") else {}
    words = [word.lower() for word in WORD.findall(name)]
    problems = [(line, word, PARTS[word]) for word in words if word in PARTS]
    return problems + [(line, word, whole[word]) for word in words if len(words) == 1 and word in whole]


def phrases(text, line):
    """Retired phrases in prose that starts at `line`; what stands in backticks is code."""
    flat = re.sub(r"`[^`\n]*`", lambda code: "`" * len(code[0]), text).replace("\n", " ")
    for found in PHRASE.finditer(flat):
        yield line + text.count("\n", 0, found.start()), " ".join(found[0].lower().split()), list(PHRASES.values())[int(found.lastgroup[1:])]


def read_allowed():
    lines = (line.split("#")[0].strip() for line in ALLOWED.read_text().splitlines())
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines if line]


def self_test():
    text = "/// Whoever\n/// asks for it, is\n/// told.\nfn house_of(x: AskedFor) -> u8 { \"so many\"; 'r' }\n// `somebody` fine\nstruct Wanted;\n"
    found = [(line, word) for line, word, _ in check("crates/a/src/door.rs", text)]
    assert found == [(1, "door"), (1, "whoever"), (2, "asks for"), (2, "is told"), (4, "house"), (4, "asked"), (4, "so many"), (6, "wanted")], found
    assert check("docs/a.md", "Plain words.\n\nA stranger.")[0][:2] == (3, "stranger")
    assert [word for _, word, _ in check("a.py", "def ask(wanted):\n    told_us = wanted\n")] == ["ask", "told"]
    plain = "fn keep_alive(wanted: &str) -> Option<Left> {} // What is there to say? It is there, careful: so many that it takes indoors.\n"
    assert not check("crates/a/src/doors.rs", plain), check("crates/a/src/doors.rs", plain)
    print("check-words: the planted words were found, and no others")
    return 0


if __name__ == "__main__":
    sys.exit(main())
