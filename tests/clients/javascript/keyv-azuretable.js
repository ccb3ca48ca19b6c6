// keyv-azuretable, a store of Keyv, through @azure/data-tables.
"use strict";

const { CONNECTION_STRING, assert, freeName, points } = require("./support");
const Keyv = require("keyv");
const { AzureTableAdapter } = require("keyv-azuretable");

async function adapter(namespace = "cache") {
  const clientOptions = { allowInsecureConnection: true };
  const made = new AzureTableAdapter({ connectionString: CONNECTION_STRING, tableName: freeName(), namespace, clientOptions });
  await made.createTable();
  return made;
}

points({
  "keys and values": async () => {
    const made = new Keyv((await adapter()).getKeyvConfig());
    await made.set("a", { text: "größe", list: [1, null] });
    assert.deepEqual(await made.get("a"), { text: "größe", list: [1, null] });
    await made.set("a", "again");
    assert.equal(await made.get("a"), "again");
    assert.equal(await made.get("missing"), undefined);
    assert.equal(await made.delete("a"), true);
    assert.equal(await made.get("a"), undefined);
  },
  expiry: async () => {
    const made = new Keyv((await adapter()).getKeyvConfig());
    await made.set("a", 1, 1);
    await made.set("b", 2, 600000);
    await new Promise((done) => setTimeout(done, 20));
    assert.deepEqual([await made.get("a"), await made.get("b")], [undefined, 2]);
  },
  clear: async () => {
    const store = await adapter();
    for (let start = 0; start < 250; start += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => store.set(`k${start + i}`, "v")));
    }
    await store.clear(); // batches of 100 deletes
    assert.equal(await store.get("k7"), undefined);
    assert.equal(await store.get("k249"), undefined);
  },
});
