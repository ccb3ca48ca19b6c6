"""Makes a container image of files alone, which `docker load`, `podman load` and skopeo take. The same input gives the same bytes.

usage: extension_image.py NAME:TAG MACHINE TREE FILE

MACHINE is Debian's name of the architecture, such as arm64. SOURCE_DATE_EPOCH is the time of all files.
"""

import datetime
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile

name, machine, tree, target = sys.argv[1:]
tree = pathlib.Path(tree)
seconds = int(os.environ["SOURCE_DATE_EPOCH"])


def tar(entries):
    """Returns an archive of these files, of root: names, and contents or None for a directory."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in entries:
            entry = tarfile.TarInfo(path)
            entry.mtime, entry.mode = seconds, 0o755 if content is None else 0o644
            entry.type, entry.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            archive.addfile(entry, io.BytesIO(content or b""))
    return written.getvalue()


paths = sorted(tree.rglob("*"))
layer = tar((str(path.relative_to(tree)), None if path.is_dir() else path.read_bytes()) for path in paths)
digest = hashlib.sha256(layer).hexdigest()
moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()
config = json.dumps({
    "architecture": machine,
    "os": "linux",
    "created": moment,
    "config": {"Labels": {"org.opencontainers.image.licenses": "PostgreSQL", "org.opencontainers.image.version": name.split(":")[1]}},
    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    "history": [{"created": moment, "created_by": "packaging/build.sh"}],
}).encode()
config_name = f"{hashlib.sha256(config).hexdigest()}.json"
manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}.tar"]}]).encode()
pathlib.Path(target).write_bytes(tar([(f"{digest}.tar", layer), (config_name, config), ("manifest.json", manifest)]))
