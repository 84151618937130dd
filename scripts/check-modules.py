#!/usr/bin/env python3
"""Checks that no two modules of a crate use each other, directly or through others.

usage: check-modules.py [--self-test] [FOLDER]

Follows the `mod` declarations of every library and program in the workspace at FOLDER (this repository unless given). A node is a
module at the top of a crate, with everything below it; an edge is a path that begins with `crate`, `super` or `self` and leads
into another one, also through a name that the crate root re-exports. Items of the crate root itself are no node. Code under
`#[cfg(test)]`, comments and strings do not count. Ends with 1 when a crate has a cycle that is not allowed, or when a crate that
is allowed to have cycles has none. `--self-test` checks the script itself on crates with planted cycles.
"""

import os
import pathlib
import re
import sys
import tempfile
import tomllib

# Crates that still have cycles, and where their end is planned. Only ever remove lines.
ALLOWED = {
    "drystone-server": "authentication, API, pages and state",
    "drystone-store": "catalog, repositories and objects",
}

TOKEN = re.compile(
    r"""//[^\n]* | /\* | r(?P<hashes>\#*)" | b?"(?:\\.|[^"\\])*" | b?'(?:\\.[^']*|[^'\\])' | '\w+ | \#!?\[ |
        [A-Za-z_]\w* | :: | \S""",
    re.VERBOSE | re.DOTALL,
)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--self-test"]
    if "--self-test" in sys.argv[1:]:
        return self_test()
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    problems, crates = check(root, ALLOWED)
    for problem in problems:
        print(f"check-modules: {problem}")
    print(f"check-modules: {crates} crates, {len(problems)} problems")
    return 1 if problems else 0


def check(root, allowed):
    """What is wrong with the crates below `root`, and how many there are."""
    problems, crates = [], 0
    for manifest in sorted([*root.glob("crates/*/Cargo.toml"), *root.glob("python/Cargo.toml")]):
        package = tomllib.loads(manifest.read_text())
        name = package["package"]["name"]
        crates += 1
        cycles = [cycle for target in targets(manifest.parent, package) for cycle in find_cycles(target)]
        if name in allowed and not cycles:
            problems.append(f"{name} has no cycle any more: remove it from ALLOWED")
        if name not in allowed:
            problems += [f"{name}: {cycle}" for cycle in cycles]
    return problems, crates


def targets(folder, package):
    """Root files of the library and the programs of a package."""
    paths = [folder / package.get("lib", {}).get("path", "src/lib.rs")]
    programs = package.get("bin", [])
    paths += [folder / program["path"] for program in programs if "path" in program]
    if not programs:
        paths += [folder / "src/main.rs", *(folder / "src/bin").glob("*.rs")]
    return [path for path in paths if path.exists()]


def find_cycles(root):
    """Texts that name each group of modules of one target that use each other."""
    crate = Crate(root)
    groups = strongly_connected(crate.edges)
    texts = []
    for group in groups:
        inside = [
            f"{a} -> {b} ({crate.edges[a][b]})" for a in sorted(group) for b in sorted(crate.edges[a]) if b in group
        ]
        texts.append(f"modules use each other: {', '.join(inside)}")
    return texts


class Crate:
    """The modules of one target and the edges between those at its top."""

    def __init__(self, root):
        self.edges, self.exports, self.uses = {}, {}, []
        self.top = set()
        self.folder = root.parent
        self.read(root, [], root.parent, root.parent)
        for module, path, place in self.uses:
            target = self.resolve(path)
            if target and target != module:
                self.edges[module].setdefault(target, place)

    def resolve(self, path):
        """The module at the top that a path from the crate root leads into."""
        for _ in range(8):
            if not path:
                return None
            if path[0] in self.top:
                return path[0]
            if path[0] not in self.exports:
                return None
            path = self.exports[path[0]] + path[1:]
        return None

    def read(self, file, module, folder, own):
        """Reads the file of a module. Modules that it declares are files in `folder`, or as `path` says relative to `own`."""
        tokens = without_tests(tokenize(file.read_text()))
        stack, attribute_path, index = [], None, 0
        while index < len(tokens):
            token, line = tokens[index]
            here = module + [name for name in stack if name]
            if token.startswith("#["):
                found = re.match(r'#\[\s*path\s*=\s*"([^"]+)"', token)
                attribute_path = found[1] if found else attribute_path
            elif token == "mod" and index + 2 < len(tokens) and tokens[index + 2][0] in ";{":
                name = tokens[index + 1][0]
                if not here:
                    self.top.add(name)
                    self.edges.setdefault(name, {})
                if tokens[index + 2][0] == ";":
                    below = folder.joinpath(*[part for part in stack if part])
                    self.open(name, here + [name], below, own, attribute_path)
                else:
                    stack.append(name)
                attribute_path = None
                index += 3
                continue
            elif token == "{":
                stack.append(None)
            elif token == "}":
                stack and stack.pop()
            elif token == "use":
                index = self.read_use(tokens, index + 1, here, f"{os.path.relpath(file, self.folder)}:{line}")
                continue
            elif token in ("crate", "super", "self") and index + 1 < len(tokens) and tokens[index + 1][0] == "::":
                path, index = read_path(tokens, index)
                self.note(path, here, f"{os.path.relpath(file, self.folder)}:{line}")
                continue
            index += 1

    def open(self, name, module, below, own, attribute_path):
        if attribute_path:
            file = own / attribute_path
            folder = file.parent
        else:
            file = below / f"{name}.rs"
            file = file if file.exists() else below / name / "mod.rs"
            folder = below / name
        if file.exists():
            self.read(file, module, folder, file.parent)

    def read_use(self, tokens, index, here, place):
        """Notes every path of a `use` declaration that begins at `index`; returns the index after it."""
        for path, alias in self.tree(tokens, index, []):
            self.note(path, here, place)
            if not here and path:
                start = path[1:] if path[0] in ("crate", "self") else path
                self.exports.setdefault(alias or path[-1], start)
        while index < len(tokens) and tokens[index][0] != ";":
            index += 1
        return index + 1

    def tree(self, tokens, index, prefix):
        """Paths, each with its alias, of the use tree that begins at `index`."""
        self.after = index
        path = list(prefix)
        while index < len(tokens):
            token = tokens[index][0]
            if token == "::":
                index += 1
            elif token == "{":
                found, index = [], index + 1
                while index < len(tokens) and tokens[index][0] != "}":
                    if tokens[index][0] == ",":
                        index += 1
                        continue
                    found += self.tree(tokens, index, path)
                    index = self.after
                self.after = index + 1
                return found
            elif token == "as":
                self.after = index + 2
                return [(path, tokens[index + 1][0])]
            elif token in (",", "}", ";"):
                break
            else:
                if token != "self" or not path:
                    path.append(token)
                index += 1
        self.after = index
        return [(path, None)]

    def note(self, path, here, place):
        """Notes that the module `here` uses `path`, when it leads from the top of the crate."""
        if not here or not path:
            return
        at = list(here)
        if path[0] == "crate":
            self.uses.append((here[0], path[1:], place))
            return
        if path[0] not in ("super", "self"):
            return
        rest = path[1:] if path[0] == "self" else path
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
        self.uses.append((here[0], at + rest, place))


def read_path(tokens, index):
    path = [tokens[index][0]]
    index += 1
    while index + 1 < len(tokens) and tokens[index][0] == "::" and re.match(r"[A-Za-z_]", tokens[index + 1][0]):
        path.append(tokens[index + 1][0])
        index += 2
    return path, index


def tokenize(text):
    """Tokens with their lines. Comments and strings are left out; an attribute is one token."""
    tokens, at, line = [], 0, 1
    while match := TOKEN.search(text, at):
        line += text.count("\n", at, match.start())
        token, end = match[0], match.end()
        if token == "/*":
            depth = 1
            while depth and (found := re.compile(r"/\*|\*/").search(text, end)):
                depth += 1 if found[0] == "/*" else -1
                end = found.end()
        elif match["hashes"] is not None:
            end = text.index('"' + match["hashes"], end) + 1 + len(match["hashes"])
        elif token in ("#[", "#!["):
            depth = 1
            while depth:
                depth += {"[": 1, "]": -1}.get(text[end], 0)
                end += 1
            tokens.append((text[match.start() : end], line))
        elif not token.startswith("//") and not token.endswith(('"', "'")) and not token.startswith("'"):
            tokens.append((token, line))
        line += text.count("\n", match.start(), end)
        at = end
    return tokens


def without_tests(tokens):
    """The tokens without items under `#[cfg(test)]`."""
    kept, index = [], 0
    while index < len(tokens):
        if not re.match(r"#\[\s*cfg\s*\(\s*(all\s*\(\s*)?test\b", tokens[index][0]):
            kept.append(tokens[index])
            index += 1
            continue
        depth = 0
        while index < len(tokens):
            token = tokens[index][0]
            index += 1
            depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(token, 0)
            if depth == 0 and (token == ";" or token == "}"):
                break
    return kept


def strongly_connected(edges):
    """Groups of more than one node that reach each other."""
    reach = {node: reachable(edges, node) for node in edges}
    groups = {frozenset(other for other in reach[node] if node in reach[other]) for node in edges}
    return sorted((group for group in groups if len(group) > 1), key=sorted)


def reachable(edges, start):
    seen, todo = set(), [start]
    while todo:
        for node in edges[todo.pop()]:
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return seen


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        plant(root, "cyclic", {
            "lib.rs": "mod a; pub mod b; mod c { pub fn f() { crate::Shown::new() } } mod d; pub use d::{deep::Shown as Shown, E};",
            "a.rs": 'use crate::{\n    b::{self, Thing},\n};\nconst TEXT: &str = "crate::d";',
            "b.rs": "mod inner; // crate::d",
            "b/inner.rs": "fn f(x: &super::super::a::X<'_>) -> char { '\"' }",
            "d.rs": "pub mod deep;\n#[cfg(test)]\nmod tests { use crate::a::X; }\nfn f() { crate::c::g() }",
            "d/deep.rs": "/* crate::a /* nested */ */ pub struct Shown;",
        })
        plant(root, "plain", {"lib.rs": "mod a; mod b; mod odd;", "a.rs": "use super::b::X;", "b.rs": "fn f() {}",
            "odd.rs": "#[cfg(test)]\nuse crate::a;\nuse std::fmt;"})
        found, _ = check(root, {})
        expected = [
            "cyclic: modules use each other: a -> b (a.rs:1), b -> a (b/inner.rs:1)",
            "cyclic: modules use each other: c -> d (lib.rs:1), d -> c (d.rs:4)",
        ]
        assert found == expected, found
        found, crates = check(root, {"cyclic": "planted", "plain": "stale"})
        assert (found, crates) == (["plain has no cycle any more: remove it from ALLOWED"], 2), found
    print("check-modules: the planted cycles were found, and no others")
    return 0


def plant(root, name, files):
    folder = root / "crates" / name
    for file, text in files.items():
        path = folder / "src" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "Cargo.toml").write_text(f'[package]\nname = "{name}"\n')


if __name__ == "__main__":
    sys.exit(main())
