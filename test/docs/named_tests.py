#!/usr/bin/env python3
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables of docs/semantics.md and docs/from-pytorch.md, held against the sources.

  named_tests.py ROOT

Of each table with the columns `here` and `tests`:

- `here` begins with have, differs, not or `cannot arise`; the first two have tests, the others tests or a reason.
- Each name in `tests` is there: `Suite.Name` of GoogleTest, `Class.test_x` of unittest, `test_x.py::test_y` of the
  exporter's tests, the path of a file in lit-tests or from ROOT, or a name that ctest was given literally.
- Each option in `here` (`--name`) is one of a tool, an executable or the exporter.
- Where the first column is called pytorch, it is the number of a bug, and a file of one of the tests names
  pytorch/pytorch#N.
"""
import pathlib
import re
import sys
from collections import defaultdict

DOCS = ("semantics.md", "from-pytorch.md")
WORDS = ("have", "differs", "not", "cannot arise")
# Files that define options, or hold the text of those that a table makes.
OPTIONS = ("include/fsdp/Passes/Pipelines.h", "include/fsdp-rt/scalars.h", "tools/lib/Driver/*.cpp",
           "tools/fsdp-*/*.cpp", "runtime/main/*.cpp", "runtime/devices/*/*.cpp", "runtime/devices/*/*/*.cpp",
           "tools/fsdp-export/**/*.py")
# "--name" in a table of options or a parser, "name" as LLVM's command line or a table of a device's settings has it.
OPTION = r'(?:"--|\*this,\s*"|cl::(?:opt|list|alias)\b[^;]*?[({]\s*")([a-z][a-z0-9-]*)"'
SETTING = r'^ *\{"([a-z][a-z0-9-]*)", "[^"]*\|'
GOOGLE_TEST = r"\b(?:TYPED_TEST|TEST(?:_[FP])?)\(\s*(\w+)\s*,\s*(\w+)\s*\)"


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables(text):
    """(line, row) of each row of each table that has tests; a row is a dictionary by the names of columns."""
    text = re.sub(r"<!--.*?-->", "", text)
    header = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            header = None
        elif header is None:
            header = cells(line)
        elif not re.fullmatch(r"[|\s:-]+", line) and "tests" in header and "here" in header:
            yield number, header, cells(line)


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


class Tree:
    """Where the tests of a tree are: a name -> the files that define it."""

    def __init__(self, root):
        self.root = root
        self.names = defaultdict(set)
        for path in self.files("test", "tools", suffixes=(".cpp", ".h", ".c")):
            for suite, name in re.findall(GOOGLE_TEST, path.read_text()):
                self.names[f"{suite}.{name}"].add(path)
        for path in self.files("test", "tools", "benchmarks", suffixes=(".py",)):
            owner = None
            for kind, name in re.findall(r"^(class| {4}def|def) (\w+)", path.read_text(), re.M):
                if kind == "class":
                    owner = name
                elif kind == "def":
                    self.names[f"{path.name}::{name}"].add(path)
                elif owner:
                    self.names[f"{owner}.{name}"].add(path)
        for path in self.files("test", "tools", "lit-tests", suffixes=(".txt",)):
            for name in re.findall(r"\badd_test\(\s*NAME\s+([\w.-]+)[\s)]", path.read_text()):
                self.names[name].add(path)
        self.options = {name for pattern in OPTIONS for path in root.glob(pattern)
                        for kind in (OPTION, SETTING) for name in re.findall(kind, path.read_text(), re.M)}

    def files(self, *folders, suffixes):
        for folder in folders:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in suffixes and path.is_file():
                    yield path

    def find(self, name):
        """The files that define a test of this name: none, where there is no such test."""
        paths = [path for path in (self.root / "lit-tests" / name, self.root / name) if path.is_file()]
        return paths or sorted(self.names.get(name, ()))


def check_row(tree, row):
    """What is wrong with a row."""
    word = next((word for word in WORDS if re.match(rf"{word}\b", row["here"])), None)
    if word is None:
        yield f"expected {', '.join(WORDS[:-1])} or {WORDS[-1]} first, got '{row['here'][:20]}'"
    names = quoted(row["tests"])
    if not names and word in ("have", "differs"):
        yield "expected a test, got none"
    if not names and word is not None and not re.search(r"\w", row["here"][len(word):]):
        yield "expected a reason or a test, got neither"
    if re.sub(r"`[^`]+`|[,\s]", "", row["tests"]):
        yield f"expected names of tests between backquotes and commas, got '{row['tests']}'"
    for name in names:
        if not tree.find(name):
            yield f"expected a test that there is, got '{name}'"
    for text in quoted(row["here"]):
        for option in re.findall(r"(?:^|\s)--([a-z][a-z0-9-]*)", text):
            if option not in tree.options:
                yield f"expected an option that there is, got '--{option}'"
    bug = re.fullmatch(r"#(\d+)", row.get("pytorch", ""))
    if bug and not any(re.search(rf"pytorch/pytorch#{bug[1]}\b", path.read_text()) for name in names
                       for path in tree.find(name)):
        yield f"expected a test whose file names pytorch/pytorch{bug[0]}, got none"


def check(root):
    """All complaints, as `file:line: what`; and how many rows were looked at."""
    tree, complaints, count = Tree(root), [], 0
    for name in DOCS:
        for line, header, row in tables((root / "docs" / name).read_text()):
            count += 1
            wrong = [f"expected {len(header)} cells, got {len(row)}"] if len(row) != len(header) else \
                check_row(tree, dict(zip(header, row)))
            complaints += [f"docs/{name}:{line}: {what}" for what in wrong]
    return complaints, count


def main():
    complaints, count = check(pathlib.Path(sys.argv[1]))
    print("\n".join(complaints) or f"{count} rows")
    return 1 if complaints or not count else 0


if __name__ == "__main__":
    sys.exit(main())
