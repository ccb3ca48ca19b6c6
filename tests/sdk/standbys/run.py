"""The SDK for Python with a primary and a standby: reads go on while the primary is away, and writes fail as in the cloud."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import unittest
from pathlib import Path

import azure.data.tables
import azure.data.tables.aio
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

ACCOUNT, KEY, PORT = os.environ["SDK_ACCOUNT"], os.environ["SDK_KEY"], os.environ["SDK_PORT"]
# The SDK changes the host alone, so the account is in the host.
ENDPOINT = f"http://{ACCOUNT}.table.localhost:{PORT}"
SECONDARY = f"{ACCOUNT}-secondary.table.localhost:{PORT}"
CONTROL = Path(__file__).with_name("control.sh")
QUICK = {"secondary_hostname": SECONDARY, "retry_total": 3, "retry_backoff_factor": 0.01}
FLAVOURS = {"sync": azure.data.tables, "async": azure.data.tables.aio}

resolve = socket.getaddrinfo


def resolve_here(host, *arguments, **options):
    """Not every resolver knows names of localhost."""
    name = host.decode() if isinstance(host, bytes) else host
    return resolve("127.0.0.1" if name and name.endswith(".localhost") else host, *arguments, **options)


socket.getaddrinfo = resolve_here


def control(what):
    subprocess.run([CONTROL, what], check=True)


async def result(value):
    return await value if hasattr(value, "__await__") else value


async def collect(items):
    return [item async for item in items] if hasattr(items, "__aiter__") else list(items)


class Standbys(unittest.IsolatedAsyncioTestCase):
    async def client(self, flavour, kind, *arguments, **options):
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        client = getattr(FLAVOURS[flavour], kind)(ENDPOINT, *arguments, credential=credential, **{**QUICK, **options})
        if flavour == "async":
            return await self.enterAsyncContext(client)
        return self.enterContext(client)

    async def becomes(self, what, condition):
        for _ in range(600):
            if await condition():
                return
            await asyncio.sleep(0.1)
        self.fail(f"it does not happen in a minute: {what}")

    async def replicated(self, table, key):
        async def found():
            try:
                await result(table.get_entity("p", key))
            except ResourceNotFoundError:
                return False
            except HttpResponseError as error:
                # No standby serves for a moment.
                if error.status_code != 503:
                    raise
                return False
            return True

        await self.becomes("the standby has it", found)

    async def stats(self, flavour):
        service = await self.client(flavour, "TableServiceClient")
        return (await result(service.get_service_stats()))["geo_replication"]

    async def test_reads_go_on_and_writes_fail(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour):
                await self.reads_go_on(flavour, f"Python{flavour}")

    async def reads_go_on(self, flavour, name):
        async def is_live():
            return (await self.stats(flavour))["status"] == "live"

        await self.becomes("the standby serves reads", is_live)
        table = await self.client(flavour, "TableClient", name, retry_to_secondary=True)
        secondary = await self.client(flavour, "TableClient", name, location_mode="secondary", retry_total=0)
        await result(table.create_table())
        await result(table.create_entity({"PartitionKey": "p", "RowKey": "early"}))
        await self.replicated(secondary, "early")
        with self.assertRaises(HttpResponseError) as caught:
            await result(secondary.create_entity({"PartitionKey": "p", "RowKey": "never"}))
        self.assertEqual(caught.exception.status_code, 403)

        # It lags: an entity that it has not replayed is not there, and it is on the primary.
        control("pause")
        try:
            await result(table.create_entity({"PartitionKey": "p", "RowKey": "late"}))
            with self.assertRaises(ResourceNotFoundError):
                await result(secondary.get_entity("p", "late"))
            await result(table.get_entity("p", "late"))
            control("crash")
            # The primary is away: the SDK goes on at the secondary endpoint.
            self.assertEqual((await result(table.get_entity("p", "early")))["RowKey"], "early")
            self.assertEqual([entity["RowKey"] for entity in await collect(table.list_entities())], ["early"])
            self.assertEqual((await result(secondary.get_entity("p", "early")))["RowKey"], "early")
            with self.assertRaises(HttpResponseError) as caught:
                await result(table.create_entity({"PartitionKey": "p", "RowKey": "away"}))
            code = json.loads(caught.exception.response.text())["odata.error"]["code"]
            self.assertEqual((caught.exception.status_code, code), (503, "ServerBusy"))
            before = await self.stats(flavour)
            self.assertEqual(before["status"], "live")
            self.assertIsNotNone(before["last_sync_time"])
        finally:
            control("again")
            control("resume")

        async def writes():
            try:
                await result(table.upsert_entity({"PartitionKey": "p", "RowKey": "again"}))
            except HttpResponseError as error:
                self.assertEqual(error.status_code, 503)
                return False
            return True

        await self.becomes("writes succeed again", writes)
        await self.replicated(secondary, "again")
        await self.replicated(secondary, "late")

        async def goes_on():
            now = await self.stats(flavour)
            return now["status"] == "live" and now["last_sync_time"] > before["last_sync_time"]

        await self.becomes("LastSyncTime goes on", goes_on)
        await result(table.delete_table())


if __name__ == "__main__":
    # It tells of every call that takes long, as the tests' debug mode asks for.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    unittest.main()
