#!/usr/bin/env python3
"""Checks that no two modules of a crate use each other, directly or through others.

usage: check-modules.py [--self-test] [FOLDER]

Follows the `mod` declarations of every library and program in the workspace at FOLDER (this repository unless given). Siblings are
compared at every depth: a node is a module with everything below it; an edge is a path that begins with `crate`, `super` or
`self` and leads into a sibling of the module that names it or of one of its parents, also through a name that a module
re-exports. Items of a parent module are no node. Code under `#[cfg(test)]`, comments and strings do not count. `LAYERS` names
modules that must not use others at all. Ends with 1 when a crate has a cycle that is not allowed or breaks a layer, or when a
crate that is allowed to have cycles has none. `--self-test` checks the script itself on crates with planted cycles.
"""

import os
import pathlib
import re
import sys
import tempfile
import tomllib

# Crates that still have cycles, and where their end is planned. Only ever remove lines.
ALLOWED = {
}

# Modules at the top of a crate, and what they must not use even without a cycle.
LAYERS = {
    "drystone-store": {
        "db": ("content", "hub", "upkeep", "objects"),
        "objects": ("content", "hub", "upkeep", "db"),
        "content": ("hub", "upkeep"),
        "hub": ("upkeep",),
    },
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
    problems, crates = check(root, ALLOWED, LAYERS)
    for problem in problems:
        print(f"check-modules: {problem}")
    print(f"check-modules: {crates} crates, {len(problems)} problems")
    return 1 if problems else 0


def check(root, allowed, layers):
    """What is wrong with the crates below `root`, and how many there are."""
    problems, crates = [], 0
    for manifest in sorted([*root.glob("crates/*/Cargo.toml"), *root.glob("python/Cargo.toml")]):
        package = tomllib.loads(manifest.read_text())
        name = package["package"]["name"]
        crates += 1
        graphs = [Crate(target) for target in targets(manifest.parent, package)]
        cycles = [cycle for graph in graphs for cycle in find_cycles(graph)]
        problems += [f"{name}: {text}" for graph in graphs for text in broken_layers(graph, layers.get(name, {}))]
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


def find_cycles(crate):
    """Texts that name each group of sibling modules of one target that use each other."""
    texts = []
    for parent, edges in sorted(crate.edges.items()):
        inside_of = f" in {'::'.join(parent)}" if parent else ""
        for group in strongly_connected(edges):
            inside = [f"{a} -> {b} ({edges[a][b]})" for a in sorted(group) for b in sorted(edges[a]) if b in group]
            texts.append(f"modules{inside_of} use each other: {', '.join(inside)}")
    return texts


def broken_layers(crate, layers):
    """Texts that name each use of a module by one that must not use it."""
    edges = crate.edges.get((), {})
    return [
        f"{module} must not use {other} ({edges[module][other]})"
        for module, others in sorted(layers.items())
        for other in others
        if other in edges.get(module, {})
    ]


class Crate:
    """The modules of one target and, for each parent module, the edges between its children."""

    def __init__(self, root):
        self.exports, self.uses = {}, []
        self.modules = {()}
        self.folder = root.parent
        self.read(root, [], root.parent, root.parent)
        self.edges = {}
        for module in self.modules - {()}:
            self.edges.setdefault(module[:-1], {}).setdefault(module[-1], {})
        for module, path, place in self.uses:
            target = self.resolve(path)
            common = 0
            while common < min(len(module), len(target)) and module[common] == target[common]:
                common += 1
            if common < min(len(module), len(target)):
                self.edges[module[:common]][module[common]].setdefault(target[common], place)

    def resolve(self, path):
        """The innermost module that a path from the crate root leads into."""
        for _ in range(8):
            at = 0
            while at < len(path) and tuple(path[: at + 1]) in self.modules:
                at += 1
            module = tuple(path[:at])
            exported = self.exports.get(module, {}).get(path[at]) if at < len(path) else None
            if exported is None:
                return module
            path = self.absolute(list(module), exported) + path[at + 1 :]
        return ()

    def absolute(self, here, path):
        """A path of the module `here` from the crate root; that of another crate is empty."""
        if path[0] == "crate":
            return path[1:]
        rest = path[1:] if path[0] == "self" else path
        at = list(here)
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
        if path[0] in ("self", "super") or tuple(here + path[:1]) in self.modules:
            return at + rest
        return []

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
                self.modules.add((*here, name))
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
            if path:
                self.exports.setdefault(tuple(here), {}).setdefault(alias or path[-1], path)
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
        if here and path and path[0] in ("crate", "super", "self"):
            self.uses.append((tuple(here), self.absolute(here, path), place))


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
        plant(root, "nested", {"lib.rs": "mod a; mod b;", "a.rs": "mod x; mod y; pub use y::Y; fn f() { x::f() }",
            "a/x.rs": "use super::Y; fn f(b: crate::b::B) {}", "a/y.rs": "pub struct Y; use crate::a::x::f;",
            "b.rs": "pub struct B;"})
        plant(root, "plain", {"lib.rs": "mod a; mod b; mod odd;", "a.rs": "use super::b::X;", "b.rs": "fn f() {}",
            "odd.rs": "#[cfg(test)]\nuse crate::a;\nuse std::fmt;"})
        found, _ = check(root, {}, {"nested": {"a": ("b",), "b": ("a",)}})
        expected = [
            "cyclic: modules use each other: a -> b (a.rs:1), b -> a (b/inner.rs:1)",
            "cyclic: modules use each other: c -> d (lib.rs:1), d -> c (d.rs:4)",
            "nested: a must not use b (a/x.rs:1)",
            "nested: modules in a use each other: x -> y (a/x.rs:1), y -> x (a/y.rs:1)",
        ]
        assert found == expected, found
        found, crates = check(root, {"cyclic": "planted", "nested": "planted", "plain": "stale"}, {})
        assert (found, crates) == (["plain has no cycle any more: remove it from ALLOWED"], 3), found
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
