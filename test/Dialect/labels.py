#===- labels.py - Keeps the labels of constraints in step -----------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Every constraint has a label that stands in four places:

declared    "- all_gather_c2: ..." in a .td file or a header of include/fsdp
checked     in a comment or a message of a .cpp file in lib or passes, or behind
            // in a .td file where a type or a trait is the check
documented  `all_gather_c2` in docs/spec.md; input_* and optimizer_* in
            docs/input-contract.md
tested      "// all_gather_c2", alone on a line of exactly one lit test, in a
            chunk (between // -----) that expects an error; where the error
            carries a label, in a chunk that expects this one

Usage: labels.py ROOT
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

LABEL = r"\b[a-z][a-z_]*_c[1-9][0-9]*\b"
# Rules of the input carry their labels in the messages that users see.
IN_MESSAGES = ("input_", "optimizer_")


def files(root, folders, suffixes):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes:
                yield path


def find(root, folders, suffixes, pattern):
    """The labels that `pattern` finds in a line, with the places."""
    places = defaultdict(list)
    for path in files(root, folders, suffixes):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for part in re.findall(pattern, line):
                for label in re.findall(LABEL, part):
                    places[label].append(f"{path.relative_to(root)}:{number}")
    return places


def find_tests(root):
    """The labels of lit tests: place, and whether an error is expected."""
    tests = defaultdict(list)
    for path in files(root, ["lit-tests"], {".mlir", ".test"}):
        number = 1
        for chunk in re.split(r"^// -----$", path.read_text(), flags=re.M):
            for offset, line in enumerate(chunk.split("\n")):
                match = re.fullmatch(rf"\s*// ({LABEL})", line)
                if not match:
                    continue
                label = match[1]
                expected = (f"expected-error.*{label}:"
                            if label.startswith(IN_MESSAGES)
                            else "expected-error")
                tests[label].append((f"{path.relative_to(root)}:{number + offset}",
                                     re.search(expected, chunk)))
            number += chunk.count("\n")
    return tests


def check(root):
    """The complaints, one per line; none where all labels are in step."""
    headers = ["include/fsdp"]
    declared = find(root, headers, {".td", ".h"}, rf"- {LABEL}:")
    checked = find(root, ["lib", "passes"], {".cpp"}, r"//.*|\"[^\"]*\"")
    for label, places in find(root, headers, {".td"}, r"//(?! - ).*").items():
        checked[label] += places
    documented = find(root, ["docs"], {".md"}, r"`[^`]*`")
    tested = find_tests(root)

    complaints = []
    if not declared:
        complaints.append(f"expected labels under {root}, got none")
    for label, places in sorted(declared.items()):
        if len(places) > 1:
            complaints.append(f"{label}: expected one declaration, got "
                              f"{', '.join(places)}")
        if label not in checked:
            complaints.append(f"{label}: expected a check, got none "
                              f"(declared at {places[0]})")
        file = ("docs/input-contract.md" if label.startswith(IN_MESSAGES)
                else "docs/spec.md")
        if not any(place.startswith(file) for place in documented[label]):
            complaints.append(f"{label}: expected it in {file}, got nothing "
                              f"(declared at {places[0]})")
        tests = tested.get(label, [])
        if len(tests) != 1:
            complaints.append(f"{label}: expected one test, got "
                              f"{', '.join(t[0] for t in tests) or 'none'}")
        complaints += [f"{place}: expected the test of {label} to expect its "
                       "error, got none" for place, error in tests if not error]
    for what, places in (("check", checked), ("documentation", documented),
                         ("test", {k: [t[0] for t in v]
                                   for k, v in tested.items()})):
        complaints += [f"{where[0]}: expected the label of a constraint in this "
                       f"{what}, got {label}, which is declared nowhere"
                       for label, where in sorted(places.items())
                       if where and label not in declared]
    return complaints


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: labels.py ROOT")
    complaints = check(Path(sys.argv[1]))
    for complaint in complaints:
        print(f"error: {complaint}", file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
