"""Options that every call takes: headers, request ids, time limits, hooks, metadata levels, the clients' own settings."""

import uuid

from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.data.tables import EdmType, EntityProperty, TransactionOperation

from support import both_flavours


def keys(row_key="r", **properties):
    return {"PartitionKey": "p", "RowKey": row_key, **properties}


class Notes(SansIOHTTPPolicy):
    """Keeps the answers that a client gets."""

    def __init__(self):
        self.answers = []

    def on_response(self, request, response):
        self.answers.append((request.http_request, response.http_response))


@both_flavours
class Options:
    async def test_answers_name_their_request(self):
        table = await self.table(keys())
        seen = []
        own = str(uuid.uuid4())
        await table.get_entity(
            "p", "r", request_id=own, raw_response_hook=lambda response: seen.append(response.http_response)
        )
        (answer,) = seen
        self.assertEqual(answer.headers["x-ms-client-request-id"], own)
        self.assertEqual(answer.headers["x-ms-version"], "2019-02-02")
        self.assertTrue(uuid.UUID(answer.headers["x-ms-request-id"]))
        self.assertEqual(answer.headers["Server"], "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0")
        self.assertEqual(answer.headers["Content-Type"], "application/json;odata=minimalmetadata;streaming=true;charset=utf-8")

    async def test_headers_and_time_limits_of_every_call(self):
        notes = Notes()
        name = self.name()
        table = await self.client(name, per_call_policies=[notes])
        options = {"headers": {"x-own": "1"}, "timeout": 20}
        entity = keys(A=1)
        await table.create_table(headers={"x-own": "1"})
        await table.create_entity(entity, headers={"x-own": "1"})
        await table.update_entity(entity, headers={"x-own": "1"})
        await table.upsert_entity(entity, headers={"x-own": "1"})
        await table.get_entity("p", "r", headers={"x-own": "1"})
        await table.list_entities(headers={"x-own": "1"}).list()
        await table.query_entities("A eq 1", headers={"x-own": "1"}).list()
        await table.get_table_access_policy(**options)
        await table.set_table_access_policy({}, **options)
        await table.delete_entity(entity, headers={"x-own": "1"})
        await table.delete_table(headers={"x-own": "1"})
        self.assertEqual(len(notes.answers), 11)
        for request, answer in notes.answers:
            self.assertEqual(request.headers["x-own"], "1")
            self.assertLess(answer.status_code, 300)
        limited = [request.url for request, _ in notes.answers if "timeout=20" in request.url]
        self.assertEqual(len(limited), 2)

    async def test_metadata_levels(self):
        table = await self.table(keys(Big=EntityProperty(2**40, EdmType.INT64)))
        for level, members in [
            ("nometadata", {"PartitionKey", "RowKey", "Big"}),
            ("minimalmetadata", {"PartitionKey", "RowKey", "Big"}),
            ("fullmetadata", {"PartitionKey", "RowKey", "Big"}),
        ]:
            accept = {"Accept": f"application/json;odata={level}"}
            for got in [
                await table.get_entity("p", "r", headers=accept),
                (await table.list_entities(headers=accept).list())[0],
            ]:
                self.assertEqual(set(got), members, level)
                # Without annotations the text of an Int64 stays a text.
                self.assertEqual(got["Big"] == str(2**40), level == "nometadata")
                self.assertEqual("editLink" in got.metadata, level == "fullmetadata")

    async def test_an_entity_comes_back_from_its_insert_when_asked(self):
        table = await self.table()
        answers = []
        await table.create_entity(
            keys(A=1),
            headers={"Prefer": "return-content"},
            raw_response_hook=lambda response: answers.append(response.http_response),
        )
        self.assertEqual(answers[0].status_code, 201)
        self.assertEqual(answers[0].headers["Preference-Applied"], "return-content")

    async def test_operations_by_name_and_by_enumeration(self):
        table = await self.table()
        for number, operation in enumerate(["create", "CREATE", TransactionOperation.CREATE, TransactionOperation.UPSERT]):
            await table.submit_transaction([(operation, keys(str(number)))])
        self.assertEqual(len(await table.list_entities().list()), 4)
