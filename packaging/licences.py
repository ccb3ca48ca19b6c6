"""Prints the licences of the crates that bills of materials name, as the crates bring them along, and of Rust's standard library.

usage: licences.py BILL...

A text that several crates have is there once. Crates that bring none have that of their kind, with their authors.
"""

import html
import json
import pathlib
import re
import subprocess
import sys

# Of crates without a file. Others of this kind are an error, so that somebody looks.
MIT = """Copyright (c) {authors}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""
NAMES = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
TEXTS = {"", ".md", ".txt"}


def rustc(what):
    """Returns what the compiler says about itself."""
    return subprocess.run(["rustc", "--print", what], check=True, capture_output=True, text=True).stdout.strip()


def packages():
    """Returns what Cargo knows of the crates, by name and version."""
    options = ["--format-version", "1", "--locked", "--filter-platform", rustc("host-tuple")]
    known = json.loads(subprocess.run(["cargo", "metadata", *options], check=True, capture_output=True).stdout)
    return {(package["name"], package["version"]): package for package in known["packages"]}


def is_licence(path):
    """Returns whether a file has a licence: LICENSE, LICENSE-MIT, COPYING.md."""
    return NAMES.match(path.name) is not None and (path.suffix.lower() in TEXTS or path.suffix.startswith(".0"))


def texts(package):
    """Returns the licences of a crate, also of what others have written in it."""
    root = pathlib.Path(package["manifest_path"]).parent
    found = sorted(path for path in root.rglob("*") if is_licence(path) and path.is_file())
    if found:
        return [path.read_text(encoding="utf-8", errors="replace").strip("\r\n").replace("\r\n", "\n") for path in found]
    if "MIT" not in package["license"]:
        sys.exit(f"licences.py: the crate {package['name']} has no licence in it, but is under {package['license']}")
    return [MIT.format(authors=", ".join(re.sub(r" <.*>", "", author) for author in package["authors"]))]


def of_standard_library():
    """Returns what the toolchain says about the library that is in every program."""
    path = pathlib.Path(rustc("sysroot"), "share/doc/rust/COPYRIGHT-library.html")
    if not path.exists():
        sys.exit(f"licences.py: {path} is missing: rustup installs it with the toolchain")
    page = re.sub(r"<style.*?</style>|<[^>]*>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line.strip() for line in html.unescape(page).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


known = packages()
crates = {}
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        for component in json.load(file)["components"]:
            if component["purl"].startswith("pkg:cargo/"):
                crates[component["name"], component["version"]] = None
owners = {}
for name, version in sorted(crates):
    package = known[name, version]
    # Those without a source are this project's own.
    for text in texts(package) if package["source"] else ():
        owners.setdefault(text, []).append(f"{name} {version} ({package['license']})")
for text, names in sorted(owners.items(), key=lambda item: item[1]):
    print("=" * 80, *dict.fromkeys(names), "-" * 80, text, "", sep="\n")
print("=" * 80, of_standard_library(), sep="\n")
