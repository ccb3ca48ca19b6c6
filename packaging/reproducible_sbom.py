"""Prints a CycloneDX bill of materials without what differs from build to build (its serial number, its time, paths), and with Rust's
standard library, which Cargo does not know.

usage: reproducible_sbom.py FILE SECONDS SOURCE RUST_VERSION
"""

import datetime
import json
import sys

path, seconds, source, rust = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    bill = json.loads(file.read().replace(f"path+file://{source}", "path+file:///source"))
bill.pop("serialNumber", None)
bill["metadata"]["timestamp"] = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).isoformat()
bill["components"].append({
    "type": "library",
    "bom-ref": "rust-std",
    "name": "rust-std",
    "version": rust,
    "description": "Rust's standard library",
    "licenses": [{"expression": "MIT OR Apache-2.0"}],
    "purl": f"pkg:generic/rust-std@{rust}",
    "scope": "required",
})
bill["dependencies"].append({"ref": "rust-std"})
bill["components"].sort(key=lambda component: component["bom-ref"])
json.dump(bill, sys.stdout, indent=1, sort_keys=True)
