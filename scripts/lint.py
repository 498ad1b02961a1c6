#!/usr/bin/env python3
"""Usage: scripts/lint.py

Checks the rules of the tree that a compiler does not see; prints each breach as file:line.

layers    a layer of src/ includes only from the layers it may see
platforms only src/platforms/registry.cc knows which platforms there are
public    at most 12 public headers; they include each other, fmt and the standard library only
size      the core (include/ and src/) stays under 20,000 lines, the tools of the command (src/cli,
          src/fuzz, src/view) under 14,000, both without tests; a file under 800
tree      headers say #pragma once; no file names a place of somebody's machine
tests     the tests that docs/testing.md names exist
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Layer -> what it may include from, besides itself and the public headers.
LAYERS = {
    "base": set(),
    "abi": {"base"},
    "graph": {"base", "abi"},
    "sched": {"base", "abi"},
    "device": {"base"},
    "platforms": {"base", "abi", "sched", "device"},
    "run": {"base", "abi", "graph", "sched", "device"},
    "worker": {"base", "abi", "graph", "sched", "device", "run"},
    "view": {"base", "abi", "graph", "sched", "device", "run", "worker"},
    "fuzz": {"base"},  # like any program; what it demands must not come from what it tests
    "cli": {"base", "abi", "graph", "sched", "device", "run", "worker", "view", "fuzz"},
}
# Single headers that a layer may see beyond that.
EXTRA = {"worker": {"platforms/registry.h"}}
# The one place where the command meets the examples.
EXAMPLES_LIST = ("src/cli/main.cc", "examples.h")

MAX_PUBLIC_HEADERS = 12
# docs/decisions/0004-size-of-the-core.md
MAX_CORE_LINES = 20_000
MAX_TOOL_LINES = 14_000
TOOLS = ("src/cli/", "src/fuzz/", "src/view/")
MAX_FILE_LINES = 800

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
STANDARD_HEADER = re.compile(r"[a-z_0-9]+")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home/\w+)/")

problems = []


def report(path, line, message):
    problems.append(f"{path}:{line}: {message}")


def tree_files():
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = sorted(set(output.split("\0")) - {""})
    return [name for name in names if (ROOT / name).is_file()]


def is_test(path):
    return path.endswith(("_test.cc", "_test.h"))


def includes(lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def check_layers(path, lines):
    layer = path.split("/")[1]
    if layer not in LAYERS:
        report(path, 1, f"src/{layer} is no layer; layers are {', '.join(LAYERS)}")
        return
    for number, quoted, target in includes(lines):
        if not quoted or (path, target) == EXAMPLES_LIST:
            continue
        other = target.split("/")[0]
        if other not in LAYERS or not (ROOT / "src" / target).is_file():
            report(path, number, f'"{target}" is no file of src/; headers of others go in <>')
        elif other != layer and other not in LAYERS[layer] | {layer} \
                and target not in EXTRA.get(layer, ()):
            allowed = ", ".join(sorted(LAYERS[layer] | EXTRA.get(layer, set()))) or "nothing"
            report(path, number, f"{layer} must not include from {other}; it may: {allowed}")


def check_platforms(path, lines, platforms):
    """Files outside a platform's folder neither include from it nor name a simulated chip."""
    own = re.match(r"src/platforms/(\w+)/", path)
    if path == "src/platforms/registry.cc" or (own and own[1] in platforms):
        foreign = set() if not own else platforms - {own[1]}
        names = False
    else:
        foreign, names = platforms, True
    for number, _, target in includes(lines):
        match = re.match(r"platforms/(\w+)/", target)
        if match and match[1] in foreign:
            report(path, number, f"only src/platforms/registry.cc includes from {match[0]}")
    for number, line in enumerate(lines, 1):
        if names and re.search(r'"(a2a3|a5)(sim)?"', line.split("//")[0]):
            report(path, number, "only src/platforms/registry.cc names the platforms")


def check_public(path, lines):
    for number, quoted, target in includes(lines):
        if quoted or not (target.startswith(("precast/", "fmt/"))
                          or STANDARD_HEADER.fullmatch(target)):
            report(path, number, f"a public header includes {target}; allowed: <precast/...>, "
                                 "<fmt/...>, the standard library")


def check_named_tests(files):
    """`Suite.Test` in docs/testing.md is a test; scene `name` and misuse `name` are in the tables."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in files
                   if is_test(name) or re.match(r"tests/(scenes|misuse)/.*\.cc", name))
    page = "docs/testing.md"
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        for suite, test in re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", line):
            if not re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{test}\)", text):
                report(page, number, f"there is no test {suite}.{test}")
        for name in re.findall(r"(?:scene|misuse) `(\w+)`", line):
            if f'"{name}"' not in text:
                report(page, number, f"there is no entry {name}")


def main():
    files = tree_files()
    platforms = {name.split("/")[2] for name in files
                 if name.startswith("src/platforms/") and name.count("/") > 2}
    core_lines = tool_lines = 0
    public_headers = 0
    for name in files:
        try:
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a binary file, such as a model
        for number, line in enumerate(lines, 1):
            if MACHINE_PATH.search(line):
                report(name, number, "names a place of one machine")
        if not name.endswith((".h", ".cc", ".cu")):
            continue
        if name.endswith(".h") and "#pragma once" not in lines:
            report(name, 1, "a header without #pragma once")
        if not name.startswith(("include/", "src/")) or is_test(name):
            continue  # a unit test may look at other layers: it is not part of the product
        if name.startswith(TOOLS):
            tool_lines += len(lines)
        else:
            core_lines += len(lines)
        if len(lines) > MAX_FILE_LINES:
            report(name, len(lines), f"{len(lines)} lines; at most {MAX_FILE_LINES}, so split it")
        if name.startswith("include/"):
            public_headers += 1
            check_public(name, lines)
        else:
            check_layers(name, lines)
            check_platforms(name, lines, platforms)
    check_named_tests(files)
    if public_headers > MAX_PUBLIC_HEADERS:
        report("include/precast", 1, f"{public_headers} headers; at most {MAX_PUBLIC_HEADERS}")
    if core_lines >= MAX_CORE_LINES:
        report("src", 1, f"{core_lines} lines with include/; under {MAX_CORE_LINES} are allowed")
    if tool_lines >= MAX_TOOL_LINES:
        report("src", 1, f"{tool_lines} lines of tools; under {MAX_TOOL_LINES} are allowed")

    for problem in problems:
        print(problem)
    print(f"{public_headers} of {MAX_PUBLIC_HEADERS} public headers, "
          f"{core_lines:,} of {MAX_CORE_LINES:,} core lines, "
          f"{tool_lines:,} of {MAX_TOOL_LINES:,} tool lines, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__.strip())
        sys.exit(0)
    sys.exit(main())
