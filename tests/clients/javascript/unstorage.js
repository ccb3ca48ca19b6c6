// unstorage with its driver azure-storage-table, which speaks HTTPS only.
"use strict";

const { ACCOUNT, KEY, TLS_PORT, assert, freeName, points } = require("./support");
const { TableClient } = require("@azure/data-tables");
const { createStorage } = require("unstorage");
const driver = require("unstorage/drivers/azure-storage-table");

const connectionString =
  `DefaultEndpointsProtocol=https;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=https://localhost:${TLS_PORT}/${ACCOUNT};`;

async function storage() {
  const tableName = freeName();
  await TableClient.fromConnectionString(connectionString, tableName).createTable();
  return createStorage({ driver: (driver.default ?? driver)({ accountName: ACCOUNT, tableName, connectionString }) });
}

points({
  "keys and values": async () => {
    const made = await storage();
    await made.setItem("a:b", { text: "größe", list: [1, null] });
    assert.deepEqual(await made.getItem("a:b"), { text: "größe", list: [1, null] });
    assert.equal(await made.hasItem("a:b"), true);
    assert.equal(await made.getItem("missing"), null);
    const meta = await made.getMeta("a:b");
    assert.match(meta.etag, /^W\//);
    assert.ok(Math.abs(meta.mtime - Date.now()) < 600e3);
    await made.removeItem("a:b");
    assert.equal(await made.hasItem("a:b"), false);
  },
  pages: async () => {
    const made = await storage();
    for (let start = 0; start < 1100; start += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => made.setItem(`k${start + i}`, i)));
    }
    assert.equal((await made.getKeys()).length, 1100);
    await made.clear();
    assert.equal((await made.getKeys()).length, 0);
  },
});
