"""Writes the contents of packages of this workspace: a bill of materials (CycloneDX), and the licences of all parts.

usage: bill.py BILL LICENCES PACKAGE... [postgresql=VERSION]

The bill is the first package's; the others, their crates, Rust's standard library and this PostgreSQL are parts of it. It is the same in
every build: SOURCE_DATE_EPOCH is its time. A licence that several crates have is there once. Crates without a file have the text of their
licence, with their authors.
"""

import datetime
import html
import json
import os
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


def output_of(*command):
    """Returns the output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def parts(metadata, names):
    """Returns the packages with these names and all that are built into them, by their ids, the named ones first; and the ids that each needs.

    Build scripts and their dependencies are in no program.
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: sorted(other["pkg"] for other in node["deps"] if any(kind["kind"] is None for kind in other["dep_kinds"]))
        for node in metadata["resolve"]["nodes"]
    }
    own = {packages[id]["name"]: id for id in metadata["workspace_members"]}
    found, open_ = {}, [own[name] for name in reversed(names)]
    while open_:
        id = open_.pop()
        if id not in found:
            found[id] = packages[id]
            open_ += needs[id]
    return found, needs


def purl(package):
    """Returns the package URL of a crate."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    """Returns a crate as a part of the bill."""
    name = purl(package)
    checksum = checksums.get((package["name"], package["version"]))
    return {
        "type": "library",
        "bom-ref": name,
        "name": package["name"],
        "version": package["version"],
        "description": package["description"] or "",
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "purl": name,
        "scope": "required",
        **({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {}),
    }


def of_standard_library(version):
    """Returns Rust's standard library as a part of the bill: Cargo does not know it."""
    return {
        "type": "library",
        "bom-ref": "rust-std",
        "name": "rust-std",
        "version": version,
        "description": "Rust's standard library",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": f"pkg:generic/rust-std@{version}",
        "scope": "required",
    }


def of_postgresql(version):
    """Returns the emulator's PostgreSQL as a part of the bill."""
    return {
        "type": "application",
        "bom-ref": "postgresql",
        "name": "postgresql",
        "version": version,
        "description": "The server and initdb, with plpgsql, dict_snowball and pgoutput; built from Debian's source",
        "licenses": [{"license": {"id": "PostgreSQL"}}],
        "purl": f"pkg:generic/postgresql@{version}",
        "cpe": f"cpe:2.3:a:postgresql:postgresql:{version}:*:*:*:*:*:*:*",
    }


def is_licence(path):
    """Returns whether a file has a licence: LICENSE, LICENSE-MIT, COPYING.md."""
    return NAMES.match(path.name) is not None and (path.suffix.lower() in TEXTS or path.suffix.startswith(".0"))


def licences(package):
    """Returns the licences of a crate, also of code in it that others have written."""
    root = pathlib.Path(package["manifest_path"]).parent
    found = sorted(path for path in root.rglob("*") if is_licence(path) and path.is_file())
    if found:
        return [path.read_text(encoding="utf-8", errors="replace").strip("\r\n").replace("\r\n", "\n") for path in found]
    if "MIT" not in package["license"]:
        sys.exit(f"bill.py: the crate {package['name']} has no licence in it, but is under {package['license']}")
    return [MIT.format(authors=", ".join(re.sub(r" <.*>", "", author) for author in package["authors"]))]


def licences_of_standard_library():
    """Returns the licences of the library that is in every program, from the page of the toolchain."""
    path = pathlib.Path(output_of("rustc", "--print", "sysroot"), "share/doc/rust/COPYRIGHT-library.html")
    if not path.exists():
        sys.exit(f"bill.py: {path} is missing: rustup installs it with the toolchain")
    page = re.sub(r"<style.*?</style>|<[^>]*>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line.strip() for line in html.unescape(page).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


bill_file, licences_file, *arguments = sys.argv[1:]
names = [name for name in arguments if "=" not in name]
postgresql = [name.split("=")[1] for name in arguments if "=" in name]
platform = output_of("rustc", "--print", "host-tuple")
metadata = json.loads(output_of("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", platform))
packages, needs = parts(metadata, names)
lock = pathlib.Path("Cargo.lock").read_text(encoding="utf-8")
of_crate = re.compile(r'^name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"', re.MULTILINE)
checksums = {(name, version): checksum for name, version, checksum in of_crate.findall(lock)}
root, *components = [component(package, checksums) for package in packages.values()]
components += [of_standard_library(output_of("rustc", "--version").split()[1]), *map(of_postgresql, postgresql)]
dependencies = [{"ref": purl(packages[id]), "dependsOn": [purl(packages[other]) for other in needs[id]]} for id in packages]
moment = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
bill = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"timestamp": moment.isoformat(), "component": root},
    "components": sorted(components, key=lambda part: part["bom-ref"]),
    "dependencies": sorted(dependencies, key=lambda dependency: dependency["ref"]),
}
pathlib.Path(bill_file).write_text(json.dumps(bill, indent=1, sort_keys=True), encoding="utf-8")

owners = {}
for package in sorted(packages.values(), key=purl):
    # Those without a source are this project's own.
    for text in licences(package) if package["source"] else ():
        owners.setdefault(text, []).append(f"{package['name']} {package['version']} ({package['license']})")
with open(licences_file, "w", encoding="utf-8") as file:
    for text, users in sorted(owners.items(), key=lambda item: item[1]):
        print("=" * 80, *dict.fromkeys(users), "-" * 80, text, "", sep="\n", file=file)
    print("=" * 80, licences_of_standard_library(), sep="\n", file=file)
