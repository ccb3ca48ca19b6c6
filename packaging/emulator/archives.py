"""Makes the wheel and the npm package of the emulator. The same input gives the same bytes.

usage: archives.py VERSION GLIBC MACHINE TREE DIRECTORY

GLIBC is the oldest C library that the programs run with, and MACHINE is x86_64 or aarch64. TREE has bin and share of
the emulator; the archives go into DIRECTORY. SOURCE_DATE_EPOCH is the time of all files.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import stat
import sys
import tarfile
import time
import zipfile

version, glibc, machine, tree, directory = sys.argv[1:]
tree, directory = pathlib.Path(tree), pathlib.Path(directory)
here = pathlib.Path(__file__).parent
seconds = int(os.environ["SOURCE_DATE_EPOCH"])

SUMMARY = "An emulator of the Azure Table service, with all that it needs, for tests and development"
LICENCES = {path.name: path for path in (tree / "share/table-service-emulator/licences").iterdir()}


def files(root):
    """Returns the files below a directory: their paths in it, in order."""
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def is_program(path):
    """Returns whether a file can be run."""
    return bool(path.stat().st_mode & stat.S_IXUSR)


def wheel():
    """Makes the wheel."""
    name = f"table_service_emulator-{version}"
    info = f"{name}.dist-info"
    entries = {}
    for path in files(here / "python"):
        entries[str(path)] = ((here / "python" / path).read_bytes(), False)
    module = "table_service_emulator/__init__.py"
    entries[module] = (entries[module][0].replace(b'__version__ = "0.0.0"', f'__version__ = "{version}"'.encode()), False)
    for path in files(tree / "bin"):
        entries[f"{name}.data/scripts/{path}"] = ((tree / "bin" / path).read_bytes(), True)
    for path in files(tree / "share"):
        source = tree / "share" / path
        entries[f"{name}.data/data/share/{path}"] = (source.read_bytes(), is_program(source))
    for licence, path in sorted(LICENCES.items()):
        entries[f"{info}/licenses/{licence}"] = (path.read_bytes(), False)
    metadata = [
        "Metadata-Version: 2.4",
        "Name: table-service-emulator",
        f"Version: {version}",
        f"Summary: {SUMMARY}",
        "License-Expression: PostgreSQL",
        *(f"License-File: {licence}" for licence in sorted(LICENCES)),
        "Requires-Python: >=3.9",
        "Classifier: Framework :: Pytest",
        "Classifier: Operating System :: POSIX :: Linux",
        "Description-Content-Type: text/markdown",
        "",
        (here / "README.md").read_text(encoding="utf-8"),
    ]
    entries[f"{info}/METADATA"] = ("\n".join(metadata).encode(), False)
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{machine}"
    entries[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: table_service\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False)
    entries[f"{info}/entry_points.txt"] = (b"[pytest11]\ntable_service = table_service_emulator.pytest_plugin\n", False)
    record = io.StringIO()
    for path, (content, _) in entries.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.write(f"{path},sha256={digest},{len(content)}\n")
    record.write(f"{info}/RECORD,,\n")
    entries[f"{info}/RECORD"] = (record.getvalue().encode(), False)

    target = directory / f"{name}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (content, can_run) in entries.items():
            entry = zipfile.ZipInfo(path, time.gmtime(seconds)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if can_run else 0o644)) << 16
            archive.writestr(entry, content)
    return target


def npm():
    """Makes the npm package."""
    package = json.loads((here / "node/package.json").read_text(encoding="utf-8"))
    package |= {"version": version, "cpu": [{"x86_64": "x64", "aarch64": "arm64"}[machine]]}
    entries = {"package.json": (json.dumps(package, indent=2).encode() + b"\n", False)}
    for path in files(here / "node"):
        entries.setdefault(str(path), ((here / "node" / path).read_bytes(), False))
    entries["README.md"] = ((here / "README.md").read_bytes(), False)
    entries["LICENSE"] = (LICENCES["table_service"].read_bytes(), False)
    for path in files(tree):
        entries[str(path)] = ((tree / path).read_bytes(), is_program(tree / path))
    target = directory / f"table-service-emulator-{version}.tgz"
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, seconds) as zipped:
        with tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, (content, can_run) in entries.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size, entry.mtime, entry.mode = len(content), seconds, 0o755 if can_run else 0o644
                archive.addfile(entry, io.BytesIO(content))
    return target


for made in (wheel(), npm()):
    print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB")
