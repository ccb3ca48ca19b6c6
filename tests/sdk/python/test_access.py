"""Keys, shared access signatures, stored access policies, service properties, the secondary endpoint."""

from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    TableSasPermissions,
    generate_account_sas,
    generate_table_sas,
)

from support import ACCOUNT, CREDENTIAL, ENDPOINT, HOST, OTHER_KEY, both_flavours, sas

SOON = timedelta(hours=1)
WRONG_KEY = AzureNamedKeyCredential(ACCOUNT, "bm90IHRoZSBrZXkgb2YgdGhpcyBhY2NvdW50")


def now():
    return datetime.now(timezone.utc)


def entity(row, partition="p", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


@both_flavours
class Keys:
    async def test_a_wrong_key(self):
        table = await self.table(entity("r"))
        wrong = await self.client(table.table_name, credential=WRONG_KEY)
        for call in [
            lambda: wrong.get_entity("p", "r"),
            lambda: wrong.create_entity(entity("s")),
            lambda: wrong.list_entities().list(),
            lambda: wrong.submit_transaction([("create", entity("s"))]),
            lambda: wrong.create_table(),
            lambda: wrong.delete_table(),
        ]:
            with self.refused(403, "AuthenticationFailed"):
                await call()
        with self.refused(403, "AuthenticationFailed", ClientAuthenticationError):
            await wrong.get_table_access_policy()
        self.assertEqual(len(await table.list_entities().list()), 1)

    async def test_either_key_of_the_account(self):
        table = await self.table(entity("r"))
        credential = AzureNamedKeyCredential(ACCOUNT, OTHER_KEY)
        other = await self.client(table.table_name, credential=credential)
        self.assertEqual((await other.get_entity("p", "r"))["RowKey"], "r")
        token = generate_table_sas(credential, table.table_name, permission="r", expiry=now() + SOON)
        limited = await self.client(table.table_name, credential=sas(token))
        self.assertEqual((await limited.get_entity("p", "r"))["RowKey"], "r")

    async def test_a_key_that_is_changed_in_time(self):
        table = await self.table(entity("r"))
        credential = AzureNamedKeyCredential(ACCOUNT, WRONG_KEY.named_key.key)
        other = await self.client(table.table_name, credential=credential)
        with self.refused(403, "AuthenticationFailed", ClientAuthenticationError):
            await other.get_entity("p", "r")
        credential.update(ACCOUNT, OTHER_KEY)
        self.assertEqual((await other.get_entity("p", "r"))["RowKey"], "r")

    async def test_another_account(self):
        table = await self.table(entity("r"))
        other = await self.client(table.table_name, credential=AzureNamedKeyCredential("another1", OTHER_KEY))
        with self.refused(403, "AuthenticationFailed", ClientAuthenticationError):
            await other.get_entity("p", "r")


@both_flavours
class TableSas:
    async def restricted(self, table, credential=CREDENTIAL, **options):
        options = {"expiry": now() + SOON, **options} if "policy_id" not in options else options
        token = generate_table_sas(credential, table.table_name, **options)
        return await self.client(table.table_name, credential=sas(token))

    async def test_each_permission_allows_its_operations(self):
        for letters, allowed in [
            ("r", {"get", "list"}),
            ("a", {"create"}),
            ("u", {"merge", "replace"}),
            ("d", {"delete"}),
            ("au", {"create", "merge", "replace", "upsert"}),
            ("raud", {"get", "list", "create", "merge", "replace", "upsert", "delete"}),
        ]:
            table = await self.table(entity("r", A=1), entity("gone"))
            permission = TableSasPermissions(
                read="r" in letters, add="a" in letters, update="u" in letters, delete="d" in letters
            )
            limited = await self.restricted(table, permission=permission)
            for name, call in {
                "get": lambda: limited.get_entity("p", "r"),
                "list": lambda: limited.list_entities().list(),
                "create": lambda: limited.create_entity(entity("new")),
                "merge": lambda: limited.update_entity(entity("r", B=1)),
                "replace": lambda: limited.update_entity(entity("r", B=1), mode="replace"),
                "upsert": lambda: limited.upsert_entity(entity("r", C=1)),
                "delete": lambda: limited.delete_entity("p", "gone"),
            }.items():
                with self.subTest(f"{letters} {name}"):
                    if name in allowed:
                        await call()
                    else:
                        with self.refused(403, "AuthorizationPermissionMismatch"):
                            await call()

    async def test_it_reaches_its_table_only(self):
        table, other = await self.table(entity("r")), await self.table(entity("r"))
        token = generate_table_sas(CREDENTIAL, table.table_name.upper(), permission="raud", expiry=now() + SOON)
        limited = await self.client(table.table_name, credential=sas(token))
        self.assertEqual((await limited.get_entity("p", "r"))["RowKey"], "r")
        outside = await self.client(other.table_name, credential=sas(token))
        with self.refused(403, "AuthorizationFailure"):
            await outside.get_entity("p", "r")
        service = self.flavour.service(credential=sas(token))
        for call in [
            lambda: service.create_table(self.name()),
            lambda: service.list_tables().list(),
            lambda: service.get_service_properties(),
            lambda: limited.get_table_access_policy(),
            lambda: limited.delete_table(),
        ]:
            with self.refused(403, "AuthorizationFailure"):
                await call()
        await service.close()

    async def test_it_stands_in_the_url(self):
        table = await self.table(entity("r"))
        token = generate_table_sas(CREDENTIAL, table.table_name, permission="r", expiry=now() + SOON)
        url = f"{ENDPOINT}/{table.table_name}?{token}"
        limited = self.flavour.constructor(self.flavour.table_class, "from_table_url", url)
        async with limited:
            self.assertEqual((await limited.get_entity("p", "r"))["RowKey"], "r")

    async def test_transactions_need_each_permission(self):
        table = await self.table(entity("r"))
        limited = await self.restricted(table, permission="a")
        await limited.submit_transaction([("create", entity("a")), ("create", entity("b"))])
        with self.refused(403, "AuthorizationPermissionMismatch"):
            await limited.submit_transaction([("create", entity("c")), ("delete", entity("r"))])
        self.assertEqual([e["RowKey"] for e in await table.list_entities().list()], ["a", "b", "r"])

    async def test_key_ranges(self):
        rows = [entity(r, p) for p in "abcd" for r in "123"]
        table = await self.table(*rows)
        for bounds, inside in [
            ({"start_pk": "b", "end_pk": "c"}, ["b1", "b2", "b3", "c1", "c2", "c3"]),
            ({"start_pk": "b", "start_rk": "2", "end_pk": "c", "end_rk": "1"}, ["b2", "b3", "c1"]),
            ({"start_pk": "d"}, ["d1", "d2", "d3"]),
            ({"end_pk": "a", "end_rk": "2"}, ["a1", "a2"]),
        ]:
            with self.subTest(bounds):
                limited = await self.restricted(table, permission="raud", **bounds)
                found = [e["PartitionKey"] + e["RowKey"] for e in await limited.list_entities().list()]
                self.assertEqual(found, inside)
                query = "RowKey eq '1') or (RowKey eq '2'"
                with self.assertRaises(HttpResponseError):
                    await limited.query_entities(query).list()
                found = await limited.query_entities("RowKey eq '1' or RowKey eq '2'").list()
                self.assertEqual([e["PartitionKey"] + e["RowKey"] for e in found], [k for k in inside if k[1] != "3"])
                pages = await limited.list_entities(results_per_page=1).by_page().list()
                self.assertEqual([e["PartitionKey"] + e["RowKey"] for page in pages for e in page], inside)
                for row in rows:
                    partition, key = row["PartitionKey"], row["RowKey"]
                    for call in [
                        lambda: limited.get_entity(partition, key),
                        lambda: limited.upsert_entity({**row, "A": 1}),
                        lambda: limited.submit_transaction([("update", {**row, "A": 2})]),
                    ]:
                        if partition + key in inside:
                            await call()
                        else:
                            with self.refused(403, "AuthorizationFailure"):
                                await call()
                with self.refused(403, "AuthorizationFailure"):
                    await limited.create_entity(entity("new", "0" if "start_pk" in bounds else "z"))

    async def test_times_addresses_and_keys(self):
        table = await self.table(entity("r"))
        for options, code in [
            ({"expiry": now() - SOON}, "AuthenticationFailed"),
            ({"start": now() + SOON, "expiry": now() + 2 * SOON}, "AuthenticationFailed"),
            ({"credential": WRONG_KEY}, "AuthenticationFailed"),
            ({"ip_address_or_range": "203.0.113.7"}, "AuthorizationSourceIPMismatch"),
            ({"ip_address_or_range": "203.0.113.7-203.0.113.9"}, "AuthorizationSourceIPMismatch"),
            ({"protocol": "https"}, "AuthorizationProtocolMismatch"),
        ]:
            with self.subTest(code, **{k: str(v) for k, v in options.items()}):
                limited = await self.restricted(table, permission="r", **options)
                with self.refused(403, code):
                    await limited.get_entity("p", "r")
        for options in [
            {"start": now() - SOON},
            {"ip_address_or_range": "127.0.0.0-127.0.0.255"},
            {"protocol": "https,http"},
        ]:
            limited = await self.restricted(table, permission="r", **options)
            await limited.get_entity("p", "r")


@both_flavours
class StoredPolicies:
    async def test_set_and_get(self):
        table = await self.table()
        self.assertEqual(await table.get_table_access_policy(), {})
        start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
        policies = {
            "full": TableAccessPolicy(start=start, expiry=start + SOON, permission="raud"),
            "expiry": TableAccessPolicy(expiry=start),
            "empty": TableAccessPolicy(),
            "nothing": None,
            "ä & <b>": TableAccessPolicy(permission="r"),
        }
        await table.set_table_access_policy(policies)
        got = await table.get_table_access_policy()
        self.assertEqual(list(got), list(policies))
        self.assertEqual((got["full"].start, got["full"].expiry, got["full"].permission), (start, start + SOON, "raud"))
        self.assertEqual((got["expiry"].start, got["expiry"].expiry), (None, start))
        self.assertEqual((got["empty"], got["nothing"]), (None, None))
        self.assertEqual(got["ä & <b>"].permission, "r")
        await table.set_table_access_policy({})
        self.assertEqual(await table.get_table_access_policy(), {})
        with self.assertRaises(ValueError):
            await table.set_table_access_policy({str(n): None for n in range(6)})
        with self.refused(400, "InvalidXmlDocument"):
            await table.set_table_access_policy({"i" * 65: None})

    async def test_a_new_table_inherits_nothing(self):
        table = await self.table()
        await table.set_table_access_policy({"old": TableAccessPolicy(permission="r")})
        await table.delete_table()
        await table.create_table()
        self.assertEqual(await table.get_table_access_policy(), {})

    async def test_signatures_with_a_policy(self):
        table = await self.table(entity("r"))
        await table.set_table_access_policy(
            {
                "readers": TableAccessPolicy(expiry=now() + SOON, permission="r"),
                "over": TableAccessPolicy(expiry=now() - SOON, permission="r"),
                "expiry": TableAccessPolicy(expiry=now() + SOON),
            }
        )

        async def limited(**options):
            return await self.client(
                table.table_name, credential=sas(generate_table_sas(CREDENTIAL, table.table_name, **options))
            )

        readers = await limited(policy_id="readers")
        self.assertEqual((await readers.get_entity("p", "r"))["RowKey"], "r")
        with self.refused(403, "AuthorizationPermissionMismatch"):
            await readers.create_entity(entity("s"))
        writers = await limited(policy_id="expiry", permission="a")
        await writers.create_entity(entity("s"))
        for options in [
            {"policy_id": "over"},
            {"policy_id": "absent"},
            {"policy_id": "expiry"},
            {"policy_id": "readers", "permission": "r"},
            {"policy_id": "readers", "expiry": now() + SOON},
        ]:
            with self.subTest(options), self.refused(403, "AuthenticationFailed", ClientAuthenticationError):
                await (await limited(**options)).get_entity("p", "r")
        # Taken back, it is worth nothing.
        await table.set_table_access_policy({})
        with self.refused(403, "AuthenticationFailed", ClientAuthenticationError):
            await readers.get_entity("p", "r")


@both_flavours
class AccountSas:
    async def test_operations_by_resource_type_and_permission(self):
        table = await self.table(entity("r"))
        name = table.table_name

        async def attempt(call, types, letters):
            token = generate_account_sas(
                CREDENTIAL, ResourceTypes.from_string(types), AccountSasPermissions.from_string(letters), now() + SOON
            )
            async with self.flavour.service(credential=sas(token)) as service:
                await call(service, service.get_table_client(name))

        new = self.name()
        for call, types, letters, mismatches in [
            (lambda s, t: s.list_tables().list(), "c", "l", ["ol", "cr"]),
            (lambda s, t: s.create_table(new), "c", "c", ["oc", "cr"]),
            (lambda s, t: s.delete_table(new), "c", "d", ["od", "cc"]),
            (lambda s, t: s.get_service_properties(), "s", "r", ["or", "sl"]),
            (lambda s, t: s.set_service_properties(cors=[]), "s", "w", ["ow", "sr"]),
            (lambda s, t: t.get_entity("p", "r"), "o", "r", ["cr", "ol"]),
            (lambda s, t: t.list_entities().list(), "o", "r", ["cr", "ol"]),
            (lambda s, t: t.create_entity(entity("new")), "o", "a", ["ca", "ou"]),
            (lambda s, t: t.update_entity(entity("r", A=1)), "o", "u", ["cu", "oa"]),
            (lambda s, t: t.upsert_entity(entity("r", A=1)), "o", "au", ["cau", "ou"]),
            (lambda s, t: t.delete_entity("p", "new"), "o", "d", ["cd", "or"]),
        ]:
            for mismatch in mismatches:
                kind = "Permission" if mismatch[0] == types else "ResourceType"
                with self.subTest(mismatch), self.refused(403, f"Authorization{kind}Mismatch"):
                    await attempt(call, mismatch[0], mismatch[1:])
            await attempt(call, types, letters)
        with self.refused(403, "AuthorizationFailure"):
            await attempt(lambda s, t: t.get_table_access_policy(), "sco", "rwdlacu")

    async def test_expired(self):
        token = generate_account_sas(
            CREDENTIAL, ResourceTypes.from_string("sco"), AccountSasPermissions.from_string("rl"), now() - SOON
        )
        async with self.flavour.service(credential=sas(token)) as service:
            with self.refused(403, "AuthenticationFailed", ClientAuthenticationError):
                await service.list_tables().list()


@both_flavours
class ServiceProperties:
    async def test_set_and_get(self):
        retention = TableRetentionPolicy(enabled=True, days=5)
        logging = TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=retention)
        hour = TableMetrics(enabled=True, include_apis=True, retention_policy=retention)
        minute = TableMetrics(enabled=False)
        cors = [
            TableCorsRule(["http://a", "http://b"], ["GET", "PUT"]),
            TableCorsRule(
                ["*"], ["GET"], max_age_in_seconds=500, exposed_headers=["x-ms-meta-*", "x"], allowed_headers=["*"]
            ),
        ]
        await self.service.set_service_properties(
            analytics_logging=logging, hour_metrics=hour, minute_metrics=minute, cors=cors
        )
        got = await self.service.get_service_properties()
        self.assertEqual((got["analytics_logging"].read, got["analytics_logging"].retention_policy.days), (True, 5))
        self.assertEqual((got["hour_metrics"].enabled, got["hour_metrics"].include_apis), (True, True))
        self.assertFalse(got["minute_metrics"].enabled)
        self.assertEqual([rule.allowed_origins for rule in got["cors"]], [["http://a", "http://b"], ["*"]])
        self.assertEqual(got["cors"][1].max_age_in_seconds, 500)
        self.assertEqual(sorted(got["cors"][1].exposed_headers), ["x", "x-ms-meta-*"])
        # Properties that are not sent stay as they are.
        await self.service.set_service_properties(cors=[])
        got = await self.service.get_service_properties()
        self.assertEqual(got["cors"], [])
        self.assertTrue(got["analytics_logging"].write)
        off = TableMetrics(enabled=False)
        await self.service.set_service_properties(
            analytics_logging=TableAnalyticsLogging(), hour_metrics=off, minute_metrics=off
        )
        self.assertFalse((await self.service.get_service_properties())["hour_metrics"].enabled)

    async def test_what_is_refused(self):
        with self.refused(400, "InvalidXmlDocument"):
            await self.service.set_service_properties(cors=[TableCorsRule(["*"], ["GET"])] * 6)
        with self.refused(400, "InvalidXmlDocument"):
            retention = TableRetentionPolicy(enabled=True, days=366)
            await self.service.set_service_properties(hour_metrics=TableMetrics(enabled=False, retention_policy=retention))


@both_flavours
class Secondary:
    async def test_statistics(self):
        # The SDK changes the host for this call, and here both have the same.
        service = self.flavour.service(endpoint=f"{ENDPOINT}-secondary", secondary_hostname=HOST)
        async with service:
            stats = await service.get_service_stats()
        self.assertEqual(stats["geo_replication"]["status"], "live")
        self.assertIsNotNone(stats["geo_replication"]["last_sync_time"])

    async def test_the_primary_has_none(self):
        service = self.flavour.service(secondary_hostname=HOST)
        async with service:
            with self.refused(400, "InvalidQueryParameterValue"):
                await service.get_service_stats()

    async def test_reads_and_no_writes(self):
        table = await self.table(entity("r"))
        secondary = await self.client(table.table_name, endpoint=f"{ENDPOINT}-secondary")
        self.assertEqual((await secondary.get_entity("p", "r"))["RowKey"], "r")
        self.assertEqual(len(await secondary.list_entities().list()), 1)
        with self.refused(403, "InsufficientAccountPermissions"):
            await secondary.create_entity(entity("s"))
