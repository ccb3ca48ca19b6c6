// fast-azure-storage, which knows only https://ACCOUNT.table.core.windows.net; its agent finds the gateway there.
"use strict";

const { ACCOUNT, KEY, assert, cloudAgent, freeName, points, refused } = require("./support");

const day = (n) => new Date(Date.UTC(2024, 0, n));
const entity = (RowKey, properties = {}) => ({ PartitionKey: "p", RowKey, ...properties });
const read = (error) => [error.statusCode, error.code];

import(require.resolve("fast-azure-storage")).then(({ Table }) => {
  const options = { accountId: ACCOUNT, agent: cloudAgent(), retries: 0 };
  const client = new Table({ ...options, accessKey: KEY });
  const op = Table.Operators;
  const table = async () => {
    const name = freeName();
    await client.createTable(name);
    return name;
  };

  return points({
    tables: async () => {
      const name = await table();
      await refused(() => client.createTable(name), 409, "TableAlreadyExists", read);
      assert.ok((await client.queryTables()).tables.includes(name));
      await client.deleteTable(name);
      await refused(() => client.deleteTable(name), 404, "ResourceNotFound", read);
      await refused(() => client.insertEntity(name, entity("r")), 404, "TableNotFound", read);
    },
    "all types": async () => {
      const t = await table();
      const values = {
        text: "größe 𝄞 'quoted'",
        int: 42,
        long: "9007199254740993",
        "long@odata.type": "Edm.Int64",
        double: 1.5,
        yes: true,
        when: "2024-02-29T12:34:56.789Z",
        "when@odata.type": "Edm.DateTime",
        guid: "fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f",
        "guid@odata.type": "Edm.Guid",
        bytes: "AAH+/w==",
        "bytes@odata.type": "Edm.Binary",
      };
      await client.insertEntity(t, entity("r", values));
      const got = await client.getEntity(t, "p", "r");
      for (const [name, value] of Object.entries(values)) assert.deepEqual(got[name], value, name);
      assert.match(got["odata.etag"], /^W\//);
    },
    writes: async () => {
      const t = await table();
      await client.insertEntity(t, entity("r", { a: 1, b: 1 }));
      await client.updateEntity(t, entity("r", { b: 2 }), { mode: "merge", eTag: "*" });
      assert.equal((await client.getEntity(t, "p", "r")).a, 1);
      await client.updateEntity(t, entity("r", { c: 3 }), { mode: "replace", eTag: "*" });
      assert.equal((await client.getEntity(t, "p", "r")).a, undefined);
      await client.updateEntity(t, entity("it's % ü", { a: 1 }), { mode: "merge" });
      await client.updateEntity(t, entity("it's % ü", { b: 1 }), { mode: "replace" });
      assert.equal((await client.getEntity(t, "p", "it's % ü")).a, undefined);
      await client.deleteEntity(t, "p", "it's % ü", { eTag: "*" });
    },
    conflicts: async () => {
      const t = await table();
      const eTag = await client.insertEntity(t, entity("r"));
      await refused(() => client.insertEntity(t, entity("r")), 409, "EntityAlreadyExists", read);
      await refused(() => client.getEntity(t, "p", "missing"), 404, "ResourceNotFound", read);
      await client.updateEntity(t, entity("r", { a: 1 }), { mode: "replace", eTag });
      await refused(() => client.updateEntity(t, entity("r"), { mode: "replace", eTag }), 412, "UpdateConditionNotSatisfied", read);
      await refused(() => client.deleteEntity(t, "p", "r", { eTag }), 412, "UpdateConditionNotSatisfied", read);
      await refused(() => client.updateEntity(t, entity("missing"), { mode: "merge", eTag: "*" }), 404, "ResourceNotFound", read);
    },
    filters: async () => {
      const t = await table();
      for (let i = 1; i <= 5; i++) {
        await client.insertEntity(t, entity(`r${i}`, { n: i, on: day(i).toJSON(), "on@odata.type": "Edm.DateTime", odd: i % 2 === 1, d: i + 0.5, s: `o'${i}` }));
      }
      const rows = async (...filter) => (await client.queryEntities(t, { filter: Table.filter(...filter) })).entities.map((each) => each.RowKey);
      assert.deepEqual(await rows(["n", op.GreaterThan, op.number(2)], op.And, ["n", op.LessThanOrEqual, op.number(4)]), ["r3", "r4"]);
      assert.deepEqual(await rows(["on", op.LessThan, op.date(day(3))]), ["r1", "r2"]);
      assert.deepEqual(await rows(["odd", op.Equal, op.bool(true)], op.And, op.Not, ["s", op.Equal, op.string("o'3")]), ["r1", "r5"]);
      assert.deepEqual(await rows(["d", op.Equal, op.number(1.5)], op.Or, ["RowKey", op.Equal, op.string("r3")]), ["r1", "r3"]);
      const [first] = (await client.queryEntities(t, { select: ["n"], top: 1 })).entities;
      assert.deepEqual([first.n, first.s], [1, undefined]);
      // A condition of a read by key.
      assert.equal((await client.getEntity(t, "p", "r1", { filter: "n eq 1" })).n, 1);
      await refused(() => client.getEntity(t, "p", "r1", { filter: "n eq 2" }), 404, "ResourceNotFound", read);
    },
    pages: async () => {
      const t = await table();
      for (let start = 0; start < 1100; start += 50) {
        await Promise.all(Array.from({ length: 50 }, (_, i) => client.insertEntity(t, entity(String(start + i).padStart(5, "0")))));
      }
      const sizes = [];
      let next = {};
      do {
        const page = await client.queryEntities(t, next);
        sizes.push(page.entities.length);
        next = page.nextPartitionKey && { nextPartitionKey: page.nextPartitionKey, nextRowKey: page.nextRowKey };
      } while (next);
      assert.deepEqual(sizes, [1000, 100]);
    },
    SAS: async () => {
      const t = await table();
      await client.insertEntity(t, entity("r"));
      const granted = { expiry: new Date(Date.now() + 3600e3), permissions: { read: true } };
      const range = { first: { partitionKey: "p", rowKey: "a" }, last: { partitionKey: "p", rowKey: "z" } };
      const reader = new Table({ ...options, sas: client.sas(t, { ...granted, ...range }) });
      assert.equal((await reader.getEntity(t, "p", "r")).RowKey, "r");
      await refused(() => reader.insertEntity(t, entity("s")), 403, "AuthorizationPermissionMismatch", read);
      await refused(() => reader.getEntity(t, "p", "zz"), 403, "AuthorizationFailure", read);
      // A function that makes signatures is not tried: this version of the client fails in it, before it sends anything.
    },
  });
});
