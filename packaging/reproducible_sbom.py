"""Prints a CycloneDX bill of materials without what differs from build to build: its serial number, its time, paths.

usage: reproducible_sbom.py FILE SECONDS SOURCE
"""

import datetime
import json
import sys

path, seconds, source = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    bill = json.loads(file.read().replace(f"path+file://{source}", "path+file:///source"))
bill.pop("serialNumber", None)
bill["metadata"]["timestamp"] = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).isoformat()
bill["components"].sort(key=lambda component: component["bom-ref"])
json.dump(bill, sys.stdout, indent=1, sort_keys=True)
