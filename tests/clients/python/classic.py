"""The points of the classic SDKs, azure-storage and azure-cosmosdb-table, which differ in the names of their modules."""

from datetime import datetime, timezone

from support import ACCOUNT, ENDPOINT, GUID, KEY, LONG_AGO, SOON, TEXT, equal, free_name, point, refused as refused_by


def run(sdk, TableService, common, endpoint=f"TableEndpoint={ENDPOINT}", odd_key="it's % ü"):
    """`sdk` has the entities, batches and permissions, `common` the policies and properties of all classic services."""
    account = f"DefaultEndpointsProtocol=http;{endpoint};AccountName={ACCOUNT}"
    service = TableService(connection_string=f"{account};AccountKey={KEY}")
    no_retries(service)
    Property, Types = sdk.EntityProperty, sdk.EdmType

    # The SDKs give the status, and the code only in the text.
    def refused(status, code):
        return refused_by(status, code, lambda error: (error.status_code, code if code in str(error) else str(error)))

    def by(token):
        made = TableService(connection_string=f"{account};SharedAccessSignature={token}")
        no_retries(made)
        return made

    def table():
        name = free_name()
        service.create_table(name, fail_on_exist=True)
        return name

    def entity(row_key, **properties):
        return {"PartitionKey": "p", "RowKey": row_key, **properties}

    @point("tables")
    def _():
        name = free_name()
        equal(service.create_table(name), True)
        equal(service.create_table(name), False)
        equal(service.exists(name), True)
        with refused(409, "TableAlreadyExists"):
            service.create_table(name, fail_on_exist=True)
        equal([each.name for each in service.list_tables() if each.name == name], [name])
        equal(service.delete_table(name), True)
        equal(service.delete_table(name), False)
        equal(service.exists(name), False)
        with refused(404, "TableNotFound"):
            service.insert_entity(name, entity("r"))

    @point("all types")
    def _():
        t = table()
        values = dict(text=TEXT, double=1.5, whole=3.0, yes=True, when=datetime(2024, 2, 29, 12, 34, 56, tzinfo=timezone.utc))
        typed = dict(
            int=Property(Types.INT32, 42),
            guid=Property(Types.GUID, str(GUID)),
            bytes=Property(Types.BINARY, b"\x00\x01\xfe\xff"),
        )
        service.insert_entity(t, entity("r", long=9007199254740993, infinite=float("inf"), **values, **typed))
        for accept in (sdk.TablePayloadFormat.JSON_MINIMAL_METADATA, sdk.TablePayloadFormat.JSON_FULL_METADATA):
            got = service.get_entity(t, "p", "r", accept=accept)
            for name, value in values.items():
                equal(got[name], value)
            equal((got["long"], got["infinite"]), (9007199254740993, float("inf")))
            equal(int(getattr(got["int"], "value", got["int"])), 42)
            equal((got["guid"].type, got["guid"].value), (Types.GUID, str(GUID)))
            equal(got["bytes"].value, b"\x00\x01\xfe\xff")

    @point("writes")
    def _():
        t = table()
        service.insert_entity(t, entity("r", a=1, b=1))
        service.merge_entity(t, entity("r", b=2))
        equal(service.get_entity(t, "p", "r")["a"], 1)
        service.update_entity(t, entity("r", c=3))
        equal("a" in service.get_entity(t, "p", "r"), False)
        service.insert_or_merge_entity(t, entity(odd_key, a=1))
        service.insert_or_replace_entity(t, entity(odd_key, b=1))
        equal("a" in service.get_entity(t, "p", odd_key), False)
        service.delete_entity(t, "p", odd_key)

    @point("conflicts")
    def _():
        t = table()
        etag = service.insert_entity(t, entity("r"))
        with refused(409, "EntityAlreadyExists"):
            service.insert_entity(t, entity("r"))
        with refused(404, "ResourceNotFound"):
            service.get_entity(t, "p", "missing")
        service.update_entity(t, entity("r", a=1), if_match=etag)
        with refused(412, "UpdateConditionNotSatisfied"):
            service.update_entity(t, entity("r", a=2), if_match=etag)
        with refused(412, "UpdateConditionNotSatisfied"):
            service.delete_entity(t, "p", "r", if_match=etag)
        with refused(404, "ResourceNotFound"):
            service.merge_entity(t, entity("missing"))

    @point("batches")
    def _():
        t = table()
        service.insert_entity(t, entity("old"))
        batch = sdk.TableBatch()
        for i in range(97):
            batch.insert_entity(entity(f"n{i}", i=i))
        batch.delete_entity("p", "old")
        batch.insert_or_replace_entity(entity("o"))
        batch.insert_or_merge_entity(entity("m"))
        equal(len(service.commit_batch(t, batch)), 100)
        equal(len(list(service.query_entities(t))), 99)
        with service.batch(t) as empty:
            pass
        with service.batch(t) as one:
            one.merge_entity(entity("n7", j=1))
        got = service.get_entity(t, "p", "n7")
        equal((got["i"], got["j"]), (7, 1))

    @point("refused batches")
    def _():
        t = table()
        service.insert_entity(t, entity("r"))
        batch = sdk.TableBatch()
        batch.insert_entity(entity("a"))
        batch.insert_entity(entity("r"))
        with refused_by(None, "EntityAlreadyExists", lambda error: (None, getattr(error, "code", str(error)))):
            service.commit_batch(t, batch)
        with refused(404, "ResourceNotFound"):
            service.get_entity(t, "p", "a")

    @point("filters")
    def _():
        t = table()
        day = lambda n: datetime(2024, 1, n, tzinfo=timezone.utc)
        for i in range(1, 6):
            service.insert_entity(t, entity(f"r{i}", n=Property(Types.INT32, i), big=i, on=day(i), odd=i % 2 == 1, d=i / 2, s=f"o'{i}"))
        rows = lambda query, **options: [e["RowKey"] for e in service.query_entities(t, filter=query, **options)]
        equal(rows("n gt 2 and n le 4"), ["r3", "r4"])
        equal(rows("on lt datetime'2024-01-03T00:00:00Z'"), ["r1", "r2"])
        equal(rows("odd eq true and not (s eq 'o''3')"), ["r1", "r5"])
        equal(rows("big ge 4L"), ["r4", "r5"])
        equal(rows("d eq 1.5 or RowKey eq 'r1'"), ["r1", "r3"])
        equal(rows(None, num_results=2), ["r1", "r2"])
        first = list(service.query_entities(t, filter="RowKey eq 'r1'", select="n"))[0]
        equal((int(getattr(first["n"], "value", first["n"])), "s" in first), (1, False))
        with refused(400, "InvalidInput"):
            rows("n gt")

    @point("pages")
    def _():
        t = table()
        for start in range(0, 1100, 100):
            batch = sdk.TableBatch()
            for i in range(start, start + 100):
                batch.insert_entity(entity(f"{i:05}"))
            service.commit_batch(t, batch)
        equal(len(list(service.query_entities(t))), 1100)
        some = service.query_entities(t, num_results=80)
        equal(len(list(some)), 80)
        equal(len(list(service.query_entities(t, num_results=900, marker=some.next_marker))), 900)

    @point("SAS")
    def _():
        t = table()
        service.insert_entity(t, entity("r"))
        reader = by(service.generate_table_shared_access_signature(t, sdk.TablePermissions.QUERY, SOON, start_pk="p", end_pk="p"))
        equal(reader.get_entity(t, "p", "r")["RowKey"], "r")
        with refused(403, "AuthorizationPermissionMismatch"):
            reader.insert_entity(t, entity("s"))
        account = by(service.generate_account_shared_access_signature(common.ResourceTypes.OBJECT, common.AccountPermissions(read=True, add=True), SOON))
        account.insert_entity(t, entity("s"))
        service.set_table_acl(t, {"all": common.AccessPolicy(sdk.TablePermissions(_str="raud"), SOON, LONG_AGO)})
        equal(service.get_table_acl(t)["all"].permission, "raud")
        named = by(service.generate_table_shared_access_signature(t, id="all"))
        named.delete_entity(t, "p", "s")
        service.set_table_acl(t)
        with refused(403, "AuthenticationFailed"):
            named.insert_entity(t, entity("t"))

    @point("service properties")
    def _():
        equal(service.get_table_service_properties().logging.read, False)
        service.set_table_service_properties(cors=[common.CorsRule(["*"], ["GET"], 60)])
        equal(service.get_table_service_properties().cors[0].max_age_in_seconds, 60)
        service.set_table_service_properties(cors=[])


def no_retries(service):
    service.retry = lambda context: None
