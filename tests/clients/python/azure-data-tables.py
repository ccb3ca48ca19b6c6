"""The current SDK for Python, azure-data-tables: its synchronous clients, and the asynchronous ones for batches and pages."""

import asyncio
import json
from datetime import datetime, timezone

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import (
    EdmType,
    EntityProperty,
    TableClient,
    TableCorsRule,
    TableServiceClient,
    TableTransactionError,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableSasPermissions,
)
from azure.core import MatchConditions
from azure.data.tables.aio import TableClient as AsyncTableClient

from support import ACCOUNT, CONNECTION_STRING, ENDPOINT, GUID, KEY, LONG_AGO, SOON, TEXT, equal, free_name, point, refused as refused_by

OPTIONS = {"retry_total": 0}
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
service = TableServiceClient.from_connection_string(CONNECTION_STRING, **OPTIONS)


def read(error):
    """The SDK gives the code with some errors; with the others it is in the answer."""
    code = getattr(error, "error_code", None) or json.loads(error.response.text())["odata.error"]["code"]
    return error.status_code, getattr(code, "value", code)


def refused(status, code):
    return refused_by(status, code, read)


def client(name, credential=CREDENTIAL):
    return TableClient(ENDPOINT, name, credential=credential, **OPTIONS)


def table():
    made = client(free_name())
    made.create_table()
    return made


def entity(row_key, **properties):
    return {"PartitionKey": "p", "RowKey": row_key, **properties}


@point("tables")
def _():
    name = free_name()
    service.create_table(name)
    service.create_table_if_not_exists(name)
    with refused(409, "TableAlreadyExists"):
        service.create_table(name)
    equal([each.name for each in service.query_tables("TableName eq @n", parameters={"n": name})], [name])
    service.delete_table(name)
    equal([each.name for each in service.list_tables() if each.name == name], [])
    with refused(404, "TableNotFound"):
        client(name).create_entity(entity("r"))
    for wrong in ("1abc", "ab"):
        try:
            service.create_table(wrong)
        except ValueError:
            continue  # the SDK's own error for names that the service refuses
        raise AssertionError(wrong)


@point("all types")
def _():
    t = table()
    values = dict(
        text=TEXT,
        int=42,
        long=EntityProperty(9007199254740993, EdmType.INT64),
        double=1.5,
        whole=3.0,
        nan=float("-inf"),
        yes=True,
        when=datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=timezone.utc),
        guid=GUID,
        bytes=b"\x00\x01\xfe\xff",
    )
    t.create_entity(entity("r", **values))
    got = t.get_entity("p", "r")
    for name, value in values.items():
        equal(got[name], value)
    equal(type(got["whole"]), float)


@point("writes")
def _():
    t = table()
    t.create_entity(entity("r", a=1, b=1))
    t.update_entity(entity("r", b=2), mode=UpdateMode.MERGE)
    equal(t.get_entity("p", "r")["a"], 1)
    t.update_entity(entity("r", c=3), mode=UpdateMode.REPLACE)
    equal("a" in t.get_entity("p", "r"), False)
    t.upsert_entity(entity("it's % ü", a=1), mode=UpdateMode.MERGE)
    t.upsert_entity(entity("it's % ü", b=1), mode=UpdateMode.REPLACE)
    equal("a" in t.get_entity("p", "it's % ü"), False)
    t.delete_entity("p", "it's % ü")
    t.delete_entity("p", "it's % ü")  # the SDK takes "gone" for success


@point("conflicts")
def _():
    t = table()
    made = t.create_entity(entity("r"))
    only = {"etag": made["etag"], "match_condition": MatchConditions.IfNotModified}
    with refused(409, "EntityAlreadyExists"):
        t.create_entity(entity("r"))
    with refused(404, "ResourceNotFound"):
        t.get_entity("p", "missing")
    t.update_entity(entity("r", a=1), mode=UpdateMode.REPLACE, **only)
    with refused(412, "UpdateConditionNotSatisfied"):
        t.update_entity(entity("r", a=2), mode=UpdateMode.REPLACE, **only)
    with refused(412, "UpdateConditionNotSatisfied"):
        t.delete_entity("p", "r", **only)
    with refused(404, "ResourceNotFound"):
        t.update_entity(entity("missing"), mode=UpdateMode.MERGE)


@point("batches")
def _():
    t = table()
    t.create_entity(entity("old"))
    kept = t.create_entity(entity("kept"))
    operations = [("create", entity(f"n{i}", i=i)) for i in range(96)]
    operations += [("delete", entity("old")), ("upsert", entity("m")), ("upsert", entity("o"), {"mode": "replace"})]
    operations += [("update", entity("kept", a=1), {"mode": "replace", "etag": kept["etag"], "match_condition": MatchConditions.IfNotModified})]
    equal(len(t.submit_transaction(operations)), 100)
    equal(len(list(t.list_entities())), 99)

    async def with_the_asynchronous_client():
        async with AsyncTableClient(ENDPOINT, t.table_name, credential=CREDENTIAL, **OPTIONS) as a:
            results = await a.submit_transaction([("upsert", entity(f"n{i}", a=True)) for i in range(100)])
            equal(len(results), 100)
            equal([e["a"] async for e in a.query_entities("RowKey eq 'n7'")], [True])

    asyncio.run(with_the_asynchronous_client())


@point("refused batches")
def _():
    t = table()
    t.create_entity(entity("r"))
    try:
        t.submit_transaction([("create", entity("a")), ("create", entity("r"))])
        raise AssertionError("not refused")
    except TableTransactionError as error:
        equal((read(error), error.index), ((409, "EntityAlreadyExists"), 1))
    with refused(404, "ResourceNotFound"):
        t.get_entity("p", "a")


@point("filters")
def _():
    t = table()
    day = lambda n: datetime(2024, 1, n, tzinfo=timezone.utc)
    for i in range(1, 6):
        t.create_entity(entity(f"r{i}", n=i, big=EntityProperty(i, EdmType.INT64), on=day(i), odd=i % 2 == 1, d=i / 2, s=f"o'{i}"))
    rows = lambda query, **parameters: [e["RowKey"] for e in t.query_entities(query, parameters=parameters)]
    equal(rows("n gt @a and n le @b", a=2, b=4), ["r3", "r4"])
    equal(rows("on lt @d", d=day(3)), ["r1", "r2"])
    equal(rows("not (odd ne @y ) and s ne @s", y=True, s="o'3"), ["r1", "r5"])
    equal(rows("odd eq True"), ["r1", "r3", "r5"])  # as programs print it
    equal(rows("big ge 4L"), ["r4", "r5"])
    equal(rows("d eq @d or RowKey eq 'r1'", d=1.5), ["r1", "r3"])
    first = list(t.query_entities("RowKey eq 'r1'", select=["n"]))[0]
    equal((first["n"], "s" in first), (1, False))
    with refused(400, "InvalidInput"):
        rows("n gt")


@point("pages")
def _():
    t = table()
    for start in range(0, 1100, 100):
        t.submit_transaction([("create", entity(f"{i:05}")) for i in range(start, start + 100)])
    equal([len(list(page)) for page in t.list_entities().by_page()], [1000, 100])

    async def with_the_asynchronous_client():
        async with AsyncTableClient(ENDPOINT, t.table_name, credential=CREDENTIAL, **OPTIONS) as a:
            sizes = []
            async for page in a.query_entities("RowKey ge '00900'", results_per_page=80).by_page():
                sizes.append(len([each async for each in page]))
            equal(sizes, [80, 80, 40])

    asyncio.run(with_the_asynchronous_client())


@point("SAS")
def _():
    t = table()
    t.create_entity(entity("r"))
    token = generate_table_sas(CREDENTIAL, t.table_name, permission=TableSasPermissions(read=True), expiry=SOON, start_pk="p", end_pk="p")
    reader = client(t.table_name, AzureSasCredential(token))
    equal(reader.get_entity("p", "r")["RowKey"], "r")
    with refused(403, "AuthorizationPermissionMismatch"):
        reader.create_entity(entity("s"))
    account = generate_account_sas(CREDENTIAL, ResourceTypes(object=True), AccountSasPermissions(read=True, add=True), SOON)
    client(t.table_name, AzureSasCredential(account)).create_entity(entity("s"))
    t.set_table_access_policy({"all": TableAccessPolicy(start=LONG_AGO, expiry=SOON, permission="raud")})
    equal(t.get_table_access_policy()["all"].permission, "raud")
    named = client(t.table_name, AzureSasCredential(generate_table_sas(CREDENTIAL, t.table_name, policy_id="all")))
    named.delete_entity("p", "s")
    t.set_table_access_policy({})
    with refused(403, "AuthenticationFailed"):
        named.create_entity(entity("t"))


@point("service properties")
def _():
    equal("cors" in service.get_service_properties(), True)
    service.set_service_properties(cors=[TableCorsRule(["*"], ["GET"], max_age_in_seconds=60)])
    equal(service.get_service_properties()["cors"][0].max_age_in_seconds, 60)
    service.set_service_properties(cors=[])
    equal(service.get_service_stats()["geo_replication"]["status"], "live")


@point("an endpoint with the table's name")
def _():
    t = table()
    wrong = TableServiceClient(f"{ENDPOINT}/{t.table_name}", credential=CREDENTIAL, **OPTIONS)
    for call in (wrong.get_service_properties, lambda: wrong.create_table(t.table_name), lambda: wrong.delete_table(t.table_name)):
        try:
            call()
        except (HttpResponseError, ValueError) as error:
            if "URL" not in str(error):
                raise AssertionError(f"does not say what is wrong: {error}") from error
        else:
            raise AssertionError("not refused")
