"""Entities one at a time: every type, every write, ETags, keys."""

import uuid
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, TableEntity, UpdateMode

from support import both_flavours

SPECIAL_KEYS = [
    "",
    " ",
    "  leading and trailing  ",
    "O'Brien",
    "''",
    '"double"',
    "100%",
    "%27",
    "%2F",
    "a+b",
    "a&b=c",
    "a,b;c:d@e",
    "(PartitionKey='x',RowKey='y')",
    "<xml>",
    "tilde~!$*",
    "[brackets]{braces}|",
    "äöüß",
    "日本語",
    "😀👩‍👩‍👧",
    "e\u0301",
    "\u00a0",
    "null",
    "k" * 512,
]


def keys(row_key="r", **properties):
    return {"PartitionKey": "p", "RowKey": row_key, **properties}


@both_flavours
class Entities:
    async def test_every_type_comes_back_as_it_went(self):
        utc = timezone.utc
        values = {
            "String": "text",
            "Empty": "",
            "Unicode": "ä日本😀\t\n\"quoted\"\\",
            "Bool": True,
            "Unbool": False,
            "Int32": 2**31 - 1,
            "MinInt32": -(2**31),
            "Double": 0.1,
            "Whole": 3.0,
            "Tiny": 5e-324,
            "Huge": 1.7976931348623157e308,
            "Infinite": float("inf"),
            "MinusInfinite": float("-inf"),
            "Guid": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
            "Binary": b"\x00\x01\xff",
            "NoBytes": b"",
            "Time": datetime(2022, 4, 13, 21, 50, 14, 247704, tzinfo=utc),
            "Second": datetime(2022, 4, 13, 21, 50, 14, tzinfo=utc),
            "First": datetime(1601, 1, 1, tzinfo=utc),
        }
        typed = {
            "Int64": EntityProperty(2**63 - 1, EdmType.INT64),
            "MinInt64": EntityProperty(-(2**63), EdmType.INT64),
            "SmallInt64": EntityProperty(5, EdmType.INT64),
            "ExplicitString": EntityProperty("7", EdmType.STRING),
            "ExplicitDouble": EntityProperty(7.0, EdmType.DOUBLE),
        }
        table = await self.table(keys(**values, **typed, Nothing=None))
        got = await table.get_entity("p", "r")
        for name, value in values.items():
            with self.subTest(name):
                self.assertEqual(got[name], value)
                self.assertIs(type(got[name]) is bool, type(value) is bool)
        for name in ["Int64", "MinInt64", "SmallInt64"]:
            self.assertEqual(got[name], typed[name])
        self.assertEqual((got["ExplicitString"], got["ExplicitDouble"]), ("7", 7.0))
        self.assertNotIn("Nothing", got)
        self.assertEqual((got["PartitionKey"], got["RowKey"]), ("p", "r"))
        # An entity that was read can be written back, and nothing changes.
        await table.update_entity(got, mode=UpdateMode.REPLACE)
        again = await table.get_entity("p", "r")
        self.assertEqual(again, got)
        self.assertNotEqual(again.metadata["etag"], got.metadata["etag"])

    async def test_nan_is_not_a_number(self):
        table = await self.table(keys(NaN=float("nan")))
        value = (await table.get_entity("p", "r"))["NaN"]
        self.assertIsInstance(value, float)
        self.assertNotEqual(value, value)

    async def test_seven_fraction_digits(self):
        time = EntityProperty("2022-04-13T21:50:14.2477041Z", EdmType.DATETIME)
        table = await self.table(keys(Time=time))
        got = (await table.get_entity("p", "r"))["Time"]
        self.assertEqual(got.tables_service_value, "2022-04-13T21:50:14.2477041Z")

    async def test_metadata_of_an_entity(self):
        before = datetime.now(timezone.utc) - timedelta(minutes=1)
        table = await self.table()
        written = await table.create_entity(keys(A=1))
        got = await table.get_entity("p", "r")
        self.assertEqual(got.metadata["etag"], written["etag"])
        self.assertRegex(written["etag"], r"^W/\"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d+)?Z'\"$")
        self.assertGreater(got.metadata["timestamp"], before)
        full = await table.get_entity("p", "r", headers={"Accept": "application/json;odata=fullmetadata"})
        self.assertTrue(full.metadata["id"].endswith(f"/{table.table_name}(PartitionKey='p',RowKey='r')"))
        self.assertEqual(full.metadata["editLink"], f"{table.table_name}(PartitionKey='p',RowKey='r')")
        self.assertTrue(full.metadata["type"].endswith(table.table_name))
        # Without metadata nothing says which number is an Int64.
        bare = await table.get_entity("p", "r", headers={"Accept": "application/json;odata=nometadata"})
        self.assertEqual(bare["A"], 1)

    async def test_insert_twice(self):
        table = await self.table(keys(A=1))
        with self.refused(409, "EntityAlreadyExists", ResourceExistsError):
            await table.create_entity(keys(A=2))
        self.assertEqual((await table.get_entity("p", "r"))["A"], 1)

    async def test_merge_and_replace(self):
        table = await self.table(keys(A=1, B=2))
        await table.update_entity(keys(B=3, C=4))
        self.assertEqual(await table.get_entity("p", "r"), keys(A=1, B=3, C=4))
        await table.update_entity(keys(D=5), mode=UpdateMode.REPLACE)
        self.assertEqual(await table.get_entity("p", "r"), keys(D=5))
        # A property may change its type.
        await table.update_entity(keys(D="five"), mode="merge")
        self.assertEqual((await table.get_entity("p", "r"))["D"], "five")
        for mode in UpdateMode:
            with self.refused(404, "ResourceNotFound", ResourceNotFoundError):
                await table.update_entity(keys("absent"), mode=mode)

    async def test_upserts(self):
        table = await self.table()
        for mode in UpdateMode:
            await table.upsert_entity(keys(mode.value, A=1, B=1), mode=mode)
            written = await table.upsert_entity(keys(mode.value, B=2), mode=mode)
            got = await table.get_entity("p", mode.value)
            self.assertEqual(got.metadata["etag"], written["etag"])
            kept = {"A": 1} if mode is UpdateMode.MERGE else {}
            self.assertEqual(got, keys(mode.value, B=2, **kept))

    async def test_etags_guard_updates_and_deletes(self):
        table = await self.table(keys(A=1))
        stale = (await table.get_entity("p", "r")).metadata["etag"]
        fresh = (await table.update_entity(keys(A=2), etag=stale, match_condition=MatchConditions.IfNotModified))["etag"]
        self.assertNotEqual(fresh, stale)
        for mode in UpdateMode:
            with self.refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
                await table.update_entity(
                    keys(A=3), mode=mode, etag=stale, match_condition=MatchConditions.IfNotModified
                )
        with self.refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
            await table.delete_entity("p", "r", etag=stale, match_condition=MatchConditions.IfNotModified)
        self.assertEqual((await table.get_entity("p", "r"))["A"], 2)
        await table.update_entity(keys(A=4), match_condition=MatchConditions.Unconditionally)
        got = await table.get_entity("p", "r")
        await table.delete_entity(got, match_condition=MatchConditions.IfNotModified)
        with self.refused(404, "ResourceNotFound", ResourceNotFoundError):
            await table.get_entity("p", "r")

    async def test_an_entity_brings_its_etag(self):
        table = await self.table(keys(A=1))
        first, second = await table.get_entity("p", "r"), await table.get_entity("p", "r")
        self.assertIsInstance(first, TableEntity)
        first["A"], second["A"] = 2, 3
        await table.update_entity(first, match_condition=MatchConditions.IfNotModified)
        with self.refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
            await table.update_entity(second, match_condition=MatchConditions.IfNotModified)
        self.assertEqual((await table.get_entity("p", "r"))["A"], 2)

    async def test_delete(self):
        table = await self.table(keys("a"), keys("b"), keys("c"))
        await table.delete_entity("p", "a")
        await table.delete_entity(partition_key="p", row_key="b")
        await table.delete_entity(keys("c"))
        self.assertEqual(await table.list_entities().list(), [])
        # The SDK takes the answer that there is none for success.
        await table.delete_entity("p", "a")

    async def test_select(self):
        table = await self.table(keys(A=1, B="two", C=3.0))
        for select in [["A", "C"], "A,C"]:
            self.assertEqual(await table.get_entity("p", "r", select=select), {"A": 1, "C": 3.0})
        got = await table.get_entity("p", "r", select=["PartitionKey", "B", "Absent"])
        self.assertEqual(got, {"PartitionKey": "p", "B": "two", "Absent": None})
        self.assertIsNotNone(got.metadata["etag"])

    async def test_special_characters_in_keys(self):
        table = await self.table()
        for key in SPECIAL_KEYS:
            with self.subTest(key):
                entity = {"PartitionKey": key, "RowKey": key, "Text": key}
                etag = (await table.create_entity(entity))["etag"]
                got = await table.get_entity(key, key)
                self.assertEqual((got, got.metadata["etag"]), (entity, etag))
                await table.update_entity({**entity, "N": 1}, etag=etag, match_condition=MatchConditions.IfNotModified)
                await table.upsert_entity({**entity, "M": 1}, mode=UpdateMode.MERGE)
                found = await table.query_entities(
                    "PartitionKey eq @k and RowKey eq @k and Text eq @k", parameters={"k": key}
                ).list()
                self.assertEqual(found, [{**entity, "N": 1, "M": 1}])
                await table.submit_transaction([("update", {**entity, "M": 2})])
                self.assertEqual((await table.get_entity(key, key))["M"], 2)
                await table.submit_transaction([("delete", entity)])
                with self.refused(404, "ResourceNotFound"):
                    await table.get_entity(key, key)

    async def test_characters_that_no_key_has(self):
        table = await self.table()
        for character in ["\\", "#", "?", "/", "\t", "\n", "\u007f", "\u0085"]:
            with self.subTest(character):
                with self.assertRaises(HttpResponseError) as caught:
                    await table.create_entity(keys(f"a{character}b"))
                self.assertEqual(caught.exception.status_code, 400)
        self.assertEqual(await table.list_entities().list(), [])

    async def test_large_entities(self):
        table = await self.table()
        # 15 times 32,768 characters, which are 64 KiB of UTF-16 each.
        large = keys(**{f"P{n}": "x" * 32768 for n in range(15)}, B=b"\xff" * 30000)
        await table.create_entity(large)
        self.assertEqual(await table.get_entity("p", "r"), large)
        with self.refused(400, "PropertyValueTooLarge"):
            await table.create_entity(keys("s", P="x" * 32769))
        with self.refused(400, "PropertyValueTooLarge"):
            await table.create_entity(keys("s", P=b"x" * 65537))
        with self.refused(400, "EntityTooLarge"):
            await table.create_entity(keys("s", **{f"P{n}": "x" * 32768 for n in range(16)}))
        with self.refused(400, "EntityTooLarge"):
            await table.update_entity(keys(Q="x" * 32768))
        many = keys("many", **{f"P{n}": n for n in range(252)})
        await table.create_entity(many)
        self.assertEqual(await table.get_entity("p", "many"), many)
        with self.refused(400, "TooManyProperties"):
            await table.create_entity(keys("s", **{f"P{n}": n for n in range(253)}))
        with self.refused(400, "TooManyProperties"):
            await table.update_entity(keys("many", More=1))
        with self.refused(400, "PropertyNameTooLong"):
            await table.create_entity(keys("s", **{"n" * 256: 1}))

    async def test_values_that_no_property_has(self):
        table = await self.table()
        for value in [
            EntityProperty("no guid", EdmType.GUID),
            EntityProperty("1600-12-31T00:00:00Z", EdmType.DATETIME),
        ]:
            with self.subTest(value):
                with self.assertRaises((HttpResponseError, ValueError, TypeError, AttributeError)) as caught:
                    await table.create_entity(keys(P=value))
                if isinstance(caught.exception, HttpResponseError):
                    self.assertEqual(caught.exception.status_code, 400)
        with self.refused(400, "PropertyNameInvalid"):
            await table.create_entity(keys(**{"a b": 1}))
        self.assertEqual(await table.list_entities().list(), [])

    async def test_absent_tables(self):
        table = await self.client(self.name())
        for call in [
            lambda: table.create_entity(keys()),
            lambda: table.get_entity("p", "r"),
            lambda: table.update_entity(keys()),
            lambda: table.upsert_entity(keys()),
            lambda: table.list_entities().list(),
            lambda: table.query_entities("A eq 1").list(),
            lambda: table.get_table_access_policy(),
            lambda: table.set_table_access_policy({}),
            lambda: table.submit_transaction([("create", keys())]),
        ]:
            with self.refused(404, "TableNotFound"):
                await call()
