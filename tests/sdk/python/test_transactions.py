"""Entity group transactions and how they fail."""

from azure.core import MatchConditions
from azure.data.tables import (
    RequestTooLargeError,
    TableTransactionError,
    TransactionOperation,
    UpdateMode,
)

from support import both_flavours


def entity(row, partition="p q'é", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


@both_flavours
class Transactions:
    async def rows(self, table):
        return {e["RowKey"]: {k: v for k, v in e.items() if not k.endswith("Key")} async for e in _each(table)}

    async def test_every_operation(self):
        table = await self.table(*(entity(row, A=1, B=1) for row in ["merge", "replace", "upmerge", "upreplace", "delete"]))
        operations = [
            (TransactionOperation.CREATE, entity("create", A=2)),
            (TransactionOperation.UPDATE, entity("merge", A=2)),
            (TransactionOperation.UPDATE, entity("replace", A=2), {"mode": UpdateMode.REPLACE}),
            (TransactionOperation.UPSERT, entity("upmerge", A=2)),
            ("upsert", entity("upreplace", A=2), {"mode": "replace"}),
            ("upsert", entity("new'row +%", A=2)),
            ("delete", entity("delete")),
        ]
        results = await table.submit_transaction(operations)
        self.assertEqual(len(results), len(operations))
        expected = {
            "create": {"A": 2},
            "merge": {"A": 2, "B": 1},
            "replace": {"A": 2},
            "upmerge": {"A": 2, "B": 1},
            "upreplace": {"A": 2},
            "new'row +%": {"A": 2},
        }
        self.assertEqual(await self.rows(table), expected)
        for (operation, sent, *_), result in zip(operations, results):
            if operation == "delete":
                self.assertIsNone(result.get("etag"))
            else:
                got = await table.get_entity(sent["PartitionKey"], sent["RowKey"])
                self.assertEqual(result["etag"], got.metadata["etag"])

    async def test_values_with_line_ends_and_boundaries(self):
        texts = ["a\r\nb\n\nc", "--batch_x--\r\n", "--changeset_y\r\nContent-Type: application/http\r\n\r\n", "日本\u2028😀"]
        table = await self.table()
        await table.submit_transaction([("create", entity(str(n), Text=text)) for n, text in enumerate(texts)])
        self.assertEqual([row["Text"] for row in (await self.rows(table)).values()], texts)

    async def test_etags(self):
        table = await self.table(entity("a", A=1), entity("b", A=1))
        etag = (await table.get_entity(entity("a")["PartitionKey"], "a")).metadata["etag"]
        guarded = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
        await table.submit_transaction([("update", entity("a", A=2), guarded)])
        for operation in [("update", entity("a", A=3), guarded), ("delete", entity("a"), guarded)]:
            with self.refused(412, "UpdateConditionNotSatisfied", TableTransactionError) as caught:
                await table.submit_transaction([("update", entity("b", A=3)), operation])
            self.assertEqual(caught.exception.index, 1)
        self.assertEqual(await self.rows(table), {"a": {"A": 2}, "b": {"A": 1}})

    async def test_a_failure_undoes_everything(self):
        table = await self.table(entity("there", A=1))
        for failing, status, code in [
            (("create", entity("there")), 409, "EntityAlreadyExists"),
            (("update", entity("absent")), 404, "ResourceNotFound"),
            (("delete", entity("absent"), {"match_condition": MatchConditions.Unconditionally}), 404, "ResourceNotFound"),
            (("create", entity("large", P="x" * 32769)), 400, "PropertyValueTooLarge"),
        ]:
            operations = [("create", entity("new")), ("upsert", entity("other")), failing]
            with self.subTest(code), self.refused(status, code, TableTransactionError) as caught:
                await table.submit_transaction(operations)
            self.assertEqual(caught.exception.index, 2)
            self.assertTrue(caught.exception.message.startswith("2:"), caught.exception.message)
            self.assertEqual(await self.rows(table), {"there": {"A": 1}})

    async def test_an_entity_occurs_once(self):
        table = await self.table()
        with self.refused(400, "InvalidDuplicateRow", TableTransactionError) as caught:
            await table.submit_transaction([("create", entity("a")), ("upsert", entity("b")), ("delete", entity("a"))])
        self.assertEqual(caught.exception.index, 2)
        self.assertEqual(await self.rows(table), {})

    async def test_one_partition(self):
        table = await self.table()
        # The SDK looks itself.
        with self.assertRaises(ValueError):
            await table.submit_transaction([("create", entity("a")), ("create", entity("b", partition="other"))])
        self.assertEqual(await self.rows(table), {})

    async def test_a_hundred_and_no_more(self):
        table = await self.table()
        await table.submit_transaction([("create", entity(str(n))) for n in range(100)])
        self.assertEqual(len(await self.rows(table)), 100)
        with self.refused(400, "InvalidInput", TableTransactionError):
            await table.submit_transaction([("upsert", entity(str(n))) for n in range(101)])

    async def test_four_mebibytes_and_no_more(self):
        table = await self.table()
        large = [("create", entity(str(n), **{f"P{i}": "x" * 32000 for i in range(15)})) for n in range(10)]
        with self.assertRaises(RequestTooLargeError) as caught:
            await table.submit_transaction(large)
        self.assertEqual(caught.exception.status_code, 413)
        self.assertEqual(await self.rows(table), {})
        await table.submit_transaction(large[:7])
        self.assertEqual(len(await self.rows(table)), 7)

    async def test_no_operations(self):
        table = await self.table()
        self.assertEqual(await table.submit_transaction([]), [])

    async def test_an_absent_table(self):
        table = await self.client(self.name())
        with self.refused(404, "TableNotFound"):
            await table.submit_transaction([("create", entity("a"))])


async def _each(table):
    for item in await table.list_entities().list():
        yield item
