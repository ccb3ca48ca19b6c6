"""Prints the bill of materials of the emulator's packages: what is in the program, in the extension, and PostgreSQL.

usage: bill.py PROGRAM_BILL EXTENSION_BILL POSTGRES_VERSION
"""

import json
import re
import sys

program, extension, version = sys.argv[1:]
with open(program, encoding="utf-8") as file:
    bill = json.load(file)
with open(extension, encoding="utf-8") as file:
    other = json.load(file)

number = re.search(r"\d[\w.]*", version).group()
components = {component["bom-ref"]: component for component in bill["components"]}
root = other["metadata"]["component"]
for component in [root, *other["components"]]:
    components.setdefault(component["bom-ref"], component)
components["postgresql"] = {
    "type": "application",
    "bom-ref": "postgresql",
    "name": "postgresql",
    "version": number,
    "description": "The server and initdb, with plpgsql, dict_snowball and pgoutput; built from Debian's source",
    "licenses": [{"license": {"id": "PostgreSQL"}}],
    "purl": f"pkg:generic/postgresql@{number}",
    "cpe": f"cpe:2.3:a:postgresql:postgresql:{number}:*:*:*:*:*:*:*",
}
bill["components"] = [components[name] for name in sorted(components)]
known = {dependency["ref"] for dependency in bill["dependencies"]}
bill["dependencies"] += [dependency for dependency in other["dependencies"] if dependency["ref"] not in known]
bill["dependencies"].append({"ref": "postgresql"})
json.dump(bill, sys.stdout, indent=1, sort_keys=True)
