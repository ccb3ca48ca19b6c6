"""llama-index-storage-kvstore-azure: documents and indexes of LlamaIndex in tables."""

import asyncio

from llama_index.storage.kvstore.azure import AzureKVStore

from support import CONNECTION_STRING, TEXT, equal, free_name, point

store = AzureKVStore.from_connection_string(CONNECTION_STRING, partition_key="p")
DOCUMENT = {"text": TEXT, "list": [1, None, "x"], "nested": {"a": {"b": 1.5}}, "n": 7, "f": 0.5, "yes": True}


@point("keys and values")
def _():
    c = free_name()
    store.put("k", DOCUMENT, c)
    got = store.get("k", c)
    equal({name: got[name] for name in DOCUMENT}, DOCUMENT)
    equal(store.get("missing", c), None)
    equal(store.delete("k", c), True)
    equal(store.get("k", c), None)


@point("large values")
def _():
    c = free_name()
    words = [f"word {i}" for i in range(20000)]
    store.put("k", {"words": words}, c)
    equal(store.get("k", c)["words"], words)


@point("batches")
def _():
    c = free_name()
    store.put_all([(f"k{i}", {"i": i}) for i in range(250)], c, batch_size=100)
    equal(len(store.get_all(c)), 250)


@point("filters")
def _():
    c = free_name()
    store.put_all([(f"k{i}", {"i": i}) for i in range(10)], c, batch_size=10)
    equal(sorted(each["i"] for each in store.query("i ge 7", c)), [7, 8, 9])


@point("pages")
def _():
    c = free_name()
    store.put_all([(f"k{i}", {"i": i}) for i in range(1100)], c, batch_size=100)
    equal(len(store.get_all(c)), 1100)


@point("asynchronous calls")
def _():
    async def run():
        c = free_name()
        # Clients belong to the loop that they are first used in.
        a = AzureKVStore.from_connection_string(CONNECTION_STRING)
        await a.aput("k", DOCUMENT, c)
        await a.aput_all([(f"k{i}", {"i": i}) for i in range(150)], c, batch_size=100)
        equal((await a.aget("k", c))["list"], [1, None, "x"])
        equal(len(await a.aget_all(c)), 151)
        await a.adelete("k", c)
        equal(await a.aget("k", c), None)
        await a._atable_service_client.close()

    asyncio.run(run())
