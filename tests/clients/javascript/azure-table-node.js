// azure-table-node, a small client of the community.
"use strict";

const { ACCOUNT, ENDPOINT, KEY, assert, called, freeName, points, refused } = require("./support");
const azure = require("azure-table-node");

const settings = { accountUrl: `${ENDPOINT}/`, accountName: ACCOUNT, accountKey: KEY, retry: false };
const client = azure.createClient(settings);
const call = (method, ...rest) => called(client, method, ...rest);
const read = (error) => [error.statusCode, error.code];
const { Query } = azure;

async function table() {
  const name = freeName();
  await call("createTable", name);
  return name;
}
const entity = (RowKey, properties = {}) => ({ PartitionKey: "p", RowKey, ...properties });

points({
  tables: async () => {
    const name = freeName();
    await call("createTable", name);
    await call("createTable", name, { ignoreIfExists: true });
    await refused(() => call("createTable", name), 409, "TableAlreadyExists", read);
    assert.ok((await call("listTables"))[0].includes(name));
    await call("deleteTable", name);
    await refused(() => call("deleteTable", name), 404, "ResourceNotFound", read);
    await refused(() => call("insertEntity", name, entity("r")), 404, "TableNotFound", read);
  },
  "all types": async () => {
    const t = await table();
    const values = {
      text: "größe 𝄞 'quoted'",
      int: 42,
      long: 9007199254740991,
      double: 1.5,
      yes: true,
      when: new Date("2024-02-29T12:34:56.789Z"),
      guid: "fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f",
      bytes: Buffer.from([0, 1, 254, 255]),
    };
    await call("insertEntity", t, entity("r", values));
    for (const metadata of ["minimal", "full"]) {
      const [got] = await called(azure.createClient({ ...settings, metadata }), "getEntity", t, "p", "r");
      for (const [name, value] of Object.entries(values)) assert.deepEqual(got[name], value, name);
    }
  },
  writes: async () => {
    const t = await table();
    const [returned] = await call("insertEntity", t, entity("r", { a: 1, b: 1 }), { returnEntity: true });
    assert.equal(returned.a, 1);
    await call("mergeEntity", t, entity("r", { b: 2 }), { force: true });
    assert.equal((await call("getEntity", t, "p", "r"))[0].a, 1);
    await call("updateEntity", t, entity("r", { c: 3 }), { force: true });
    assert.equal((await call("getEntity", t, "p", "r"))[0].a, undefined);
    await call("insertOrMergeEntity", t, entity("it's % ü", { a: 1 }));
    await call("insertOrReplaceEntity", t, entity("it's % ü", { b: 1 }));
    assert.equal((await call("getEntity", t, "p", "it's % ü"))[0].a, undefined);
    await call("deleteEntity", t, entity("it's % ü"), { force: true });
  },
  conflicts: async () => {
    const t = await table();
    const [__etag] = await call("insertEntity", t, entity("r"));
    await refused(() => call("insertEntity", t, entity("r")), 409, "EntityAlreadyExists", read);
    await refused(() => call("getEntity", t, "p", "missing"), 404, "ResourceNotFound", read);
    await call("updateEntity", t, entity("r", { __etag }));
    await refused(() => call("updateEntity", t, entity("r", { __etag })), 412, "UpdateConditionNotSatisfied", read);
    await refused(() => call("deleteEntity", t, entity("r", { __etag })), 412, "UpdateConditionNotSatisfied", read);
    await refused(() => call("mergeEntity", t, entity("missing"), { force: true }), 404, "ResourceNotFound", read);
  },
  batches: async () => {
    const t = await table();
    await call("insertEntity", t, entity("old"));
    const batch = client.startBatch();
    for (let i = 0; i < 97; i++) batch.insertEntity(t, entity(`n${i}`, { i }));
    batch.deleteEntity(t, entity("old"), { force: true }).insertOrReplaceEntity(t, entity("o")).insertOrMergeEntity(t, entity("m"));
    const [results] = await called(batch, "commit");
    assert.equal(results.length, 100);
    assert.match(results[5], /^W\//);
    const query = client.startBatch();
    query.getEntity(t, "p", "n7");
    assert.equal((await called(query, "commit"))[0][0].i, 7);
  },
  "refused batches": async () => {
    const t = await table();
    await call("insertEntity", t, entity("r"));
    const batch = client.startBatch();
    batch.insertEntity(t, entity("a")).insertEntity(t, entity("r"));
    await refused(() => called(batch, "commit"), 409, "EntityAlreadyExists", read);
    await refused(() => call("getEntity", t, "p", "a"), 404, "ResourceNotFound", read);
  },
  filters: async () => {
    const t = await table();
    const day = (n) => new Date(Date.UTC(2024, 0, n));
    for (let i = 1; i <= 5; i++) await call("insertEntity", t, entity(`r${i}`, { n: i, on: day(i), odd: i % 2 === 1, d: i + 0.5, s: `o'${i}` }));
    const rows = async (query, options) => (await call("queryEntities", t, { query, ...options }))[0].map((each) => each.RowKey);
    assert.deepEqual(await rows(Query.create("n", ">", 2).and("n", "<=", 4)), ["r3", "r4"]);
    assert.deepEqual(await rows(Query.create("on", "<", day(3))), ["r1", "r2"]);
    assert.deepEqual(await rows(Query.create("odd", "==", true).and("s", "!=", "o'3")), ["r1", "r5"]);
    assert.deepEqual(await rows(Query.create("d", "==", 1.5).or("RowKey", "==", "r3")), ["r1", "r3"]);
    assert.deepEqual(await rows(undefined, { limitTo: 2 }), ["r1", "r2"]);
    const [[first]] = await call("queryEntities", t, { query: "RowKey eq 'r1'", onlyFields: ["n"] });
    assert.deepEqual([first.n, first.s], [1, undefined]);
  },
  pages: async () => {
    const t = await table();
    for (let start = 0; start < 1100; start += 100) {
      const batch = client.startBatch();
      for (let i = start; i < start + 100; i++) batch.insertEntity(t, entity(String(i).padStart(5, "0")));
      await called(batch, "commit");
    }
    const sizes = [];
    let continuation;
    do {
      const [page, next] = await call("queryEntities", t, continuation ? { continuation } : {});
      sizes.push(page.length);
      continuation = next;
    } while (continuation);
    assert.deepEqual(sizes, [1000, 100]);
  },
  SAS: async () => {
    const t = await table();
    await call("insertEntity", t, entity("r"));
    const sas = client.generateSAS(t, "r", new Date(Date.now() + 3600e3), { startPK: "p", endPK: "p" });
    const reader = azure.createClient({ ...settings, accountKey: null, sas });
    assert.equal((await called(reader, "getEntity", t, "p", "r"))[0].RowKey, "r");
    await refused(() => called(reader, "insertEntity", t, entity("s")), 403, "AuthorizationPermissionMismatch", read);
  },
});
