"""The official command line, azure-cli: `az storage table` and `az storage entity`."""

import json
import os
import subprocess
import sys
import tempfile

from support import ACCOUNT, CONNECTION_STRING, ENDPOINT, SOON, equal, free_name, point

home = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "AZURE_CONFIG_DIR": home.name, "AZURE_CORE_COLLECT_TELEMETRY": "no", "AZURE_CORE_OUTPUT": "json"}


class Failed(Exception):
    pass


def az(*arguments, **more):
    """The output of `az storage ...`, read as JSON."""
    environment = {**ENVIRONMENT, "AZURE_STORAGE_CONNECTION_STRING": CONNECTION_STRING, **more}
    environment = {name: value for name, value in environment.items() if value is not None}
    command = [os.path.join(os.path.dirname(sys.executable), "az"), "storage", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return json.loads(done.stdout) if done.stdout.strip() else None


def refused(text, *arguments, **more):
    try:
        az(*arguments, **more)
    except Failed as error:
        if text not in str(error):
            raise AssertionError(f"does not say '{text}': {error}") from error
    else:
        raise AssertionError(f"not refused with '{text}'")


def table():
    name = free_name()
    az("table", "create", "-n", name)
    return name


def insert(t, row_key, *properties, how="fail"):
    return az("entity", "insert", "-t", t, "--if-exists", how, "--entity", "PartitionKey=p", f"RowKey={row_key}", *properties)


def show(t, row_key):
    return az("entity", "show", "-t", t, "--partition-key", "p", "--row-key", row_key)


@point("tables")
def _():
    t = free_name()
    equal(az("table", "create", "-n", t)["created"], True)
    refused("TableAlreadyExists", "table", "create", "-n", t, "--fail-on-exist")
    equal(az("table", "exists", "-n", t)["exists"], True)
    equal([each["name"] for each in az("table", "list") if each["name"] == t], [t])
    equal(az("table", "delete", "-n", t)["deleted"], True)
    equal(az("table", "exists", "-n", t)["exists"], False)


@point("all types")
def _():
    t = table()
    typed = ["i=42", "i@odata.type=Edm.Int32", "l=9007199254740993", "l@odata.type=Edm.Int64", "d=1.5", "d@odata.type=Edm.Double"]
    typed += ["y=true", "y@odata.type=Edm.Boolean", "w=2024-02-29T12:34:56Z", "w@odata.type=Edm.DateTime"]
    typed += ["g=fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f", "g@odata.type=Edm.Guid", "s=größe"]
    insert(t, "r", *typed)
    got = show(t, "r")
    equal(got["s"], "größe")
    plain = lambda value: value["value"] if isinstance(value, dict) and "value" in value else value
    equal((plain(got["i"]), int(plain(got["l"])), plain(got["d"])), (42, 9007199254740993, 1.5))
    equal(str(plain(got["y"])).lower(), "true")
    equal(got["w"][:19], "2024-02-29T12:34:56")
    equal(plain(got["g"]), "fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f")


@point("writes and conflicts")
def _():
    t = table()
    etag = insert(t, "r", "a=1", "b=1")["etag"]
    refused("already exists", "entity", "insert", "-t", t, "--entity", "PartitionKey=p", "RowKey=r")
    key = ["--entity", "PartitionKey=p", "RowKey=r"]
    az("entity", "merge", "-t", t, *key, "b=2")
    refused("update condition", "entity", "replace", "-t", t, "--if-match", etag, *key, "c=3")
    equal((show(t, "r")["a"], show(t, "r")["b"]), (1, 2))
    insert(t, "r", "c=3", how="replace")
    equal("a" in show(t, "r"), False)
    refused("does not exist", "entity", "replace", "-t", t, "--entity", "PartitionKey=p", "RowKey=missing")
    az("entity", "delete", "-t", t, "--partition-key", "p", "--row-key", "r")
    refused("does not exist", "entity", "show", "-t", t, "--partition-key", "p", "--row-key", "r")


@point("filters")
def _():
    t = table()
    for i in (1, 2, 3):
        insert(t, f"r{i}", f"n={i}", "n@odata.type=Edm.Int32")
    found = az("entity", "query", "-t", t, "--filter", "n ge 2 and RowKey ne 'r3'", "--select", "RowKey")
    equal([each["RowKey"] for each in found["items"]], ["r2"])


@point("pages")
def _():
    t = table()
    # A command an entity would take an hour: SQL writes them.
    statement = f"SELECT table_service.insert_entity('{t}', 'p', lpad(i::text, 5, '0'), '{{}}') FROM generate_series(0, 1099) AS i"
    subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", statement], check=True, capture_output=True)
    first = az("entity", "query", "-t", t, "--num-results", "1000")
    equal(len(first["items"]), 1000)
    marker = [f"{name}={value}" for name, value in first["nextMarker"].items()]
    equal(len(az("entity", "query", "-t", t, "--num-results", "1000", "--marker", *marker)["items"]), 100)


@point("SAS")
def _():
    t = table()
    insert(t, "r")
    by = lambda token: dict(AZURE_STORAGE_CONNECTION_STRING=f"TableEndpoint={ENDPOINT};SharedAccessSignature={token};")
    show_r = ["entity", "show", "-t", t, "--partition-key", "p", "--row-key", "r"]
    token = az("table", "generate-sas", "-n", t, "--permissions", "r", "--expiry", SOON.strftime("%Y-%m-%dT%H:%MZ"))
    equal(az(*show_r, **by(token))["RowKey"], "r")
    refused("Forbidden", "entity", "insert", "-t", t, "--entity", "PartitionKey=p", "RowKey=s", **by(token))
    expiry = SOON.strftime("%Y-%m-%dT%H:%MZ")
    az("table", "policy", "create", "-t", t, "-n", "readers", "--permissions", "r", "--start", "2001-01-01T00:00Z", "--expiry", expiry)
    equal(list(az("table", "policy", "list", "-t", t)), ["readers"])
    named = az("table", "generate-sas", "-n", t, "--policy-name", "readers")
    equal(az(*show_r, **by(named))["RowKey"], "r")
    az("table", "policy", "delete", "-t", t, "-n", "readers")
    refused("Authentication failure", *show_r, **by(named))
