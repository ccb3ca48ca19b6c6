// The classic SDK for Node.js, azure-storage 2.
"use strict";

const { CONNECTION_STRING, ENDPOINT, assert, called, freeName, points, refused } = require("./support");
const azure = require("azure-storage");

const service = azure.createTableService(CONNECTION_STRING).withFilter(new azure.LinearRetryPolicyFilter(0, 1));
const call = (method, ...rest) => called(service, method, ...rest);
const read = (error) => [error.statusCode, error.code];
const { entityGenerator: gen } = azure.TableUtilities;
const Query = azure.TableQuery;

async function table() {
  const name = freeName();
  await call("createTable", name);
  return name;
}
const entity = (rowKey, properties = {}) => ({ PartitionKey: gen.String("p"), RowKey: gen.String(rowKey), ...properties });

points({
  tables: async () => {
    const name = freeName();
    assert.equal((await call("createTableIfNotExists", name))[0].created, true);
    assert.equal((await call("createTableIfNotExists", name))[0].created, false);
    await refused(() => call("createTable", name), 409, "TableAlreadyExists", read);
    assert.equal((await call("doesTableExist", name))[0].exists, true);
    const [listed] = await call("listTablesSegmentedWithPrefix", name.slice(0, 20), null);
    assert.deepEqual(listed.entries, [name]);
    await call("deleteTable", name);
    assert.equal((await call("deleteTableIfExists", name))[0], false);
    await refused(() => call("insertEntity", name, entity("r")), 404, "TableNotFound", read);
  },
  "all types": async () => {
    const t = await table();
    const when = new Date("2024-02-29T12:34:56.789Z");
    const values = {
      text: gen.String("größe 𝄞 'quoted'"),
      int: gen.Int32(42),
      long: gen.Int64("9007199254740993"),
      double: gen.Double(1.5),
      whole: gen.Double(3),
      yes: gen.Boolean(true),
      when: gen.DateTime(when),
      guid: gen.Guid("fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f"),
      bytes: gen.Binary(Buffer.from([0, 1, 254, 255])),
    };
    await call("insertEntity", t, entity("r", values));
    for (const payloadFormat of [azure.TableUtilities.PayloadFormat.MINIMAL_METADATA, azure.TableUtilities.PayloadFormat.FULL_METADATA]) {
      const [got] = await call("retrieveEntity", t, "p", "r", { payloadFormat });
      const plain = Object.fromEntries(Object.entries(got).map(([name, value]) => [name, value._]));
      assert.deepEqual([plain.text, plain.int, plain.long, plain.double, plain.whole, plain.yes], ["größe 𝄞 'quoted'", 42, "9007199254740993", 1.5, 3, true]);
      assert.deepEqual([plain.when.getTime(), plain.guid], [when.getTime(), values.guid._]);
      assert.deepEqual(Buffer.from(plain.bytes), values.bytes._);
      assert.equal(got.long.$, "Edm.Int64");
      assert.ok(got[".metadata"].etag);
    }
  },
  writes: async () => {
    const t = await table();
    const [echoed] = await call("insertEntity", t, entity("r", { a: gen.Int32(1), b: gen.Int32(1) }), { echoContent: true });
    assert.equal(echoed.a._, 1);
    await call("mergeEntity", t, entity("r", { b: gen.Int32(2) }));
    assert.equal((await call("retrieveEntity", t, "p", "r"))[0].a._, 1);
    await call("replaceEntity", t, entity("r", { c: gen.Int32(3) }));
    assert.equal((await call("retrieveEntity", t, "p", "r"))[0].a, undefined);
    await call("insertOrMergeEntity", t, entity("it's % ü", { a: gen.Int32(1) }));
    await call("insertOrReplaceEntity", t, entity("it's % ü", { b: gen.Int32(1) }));
    assert.equal((await call("retrieveEntity", t, "p", "it's % ü"))[0].a, undefined);
    await call("deleteEntity", t, entity("it's % ü"));
  },
  conflicts: async () => {
    const t = await table();
    const [{ ".metadata": metadata }] = await call("insertEntity", t, entity("r"));
    await refused(() => call("insertEntity", t, entity("r")), 409, "EntityAlreadyExists", read);
    await refused(() => call("retrieveEntity", t, "p", "missing"), 404, "ResourceNotFound", read);
    const tagged = entity("r", { ".metadata": metadata });
    await call("replaceEntity", t, tagged);
    await refused(() => call("replaceEntity", t, tagged), 412, "UpdateConditionNotSatisfied", read);
    await refused(() => call("deleteEntity", t, tagged), 412, "UpdateConditionNotSatisfied", read);
    await refused(() => call("mergeEntity", t, entity("missing")), 404, "ResourceNotFound", read);
  },
  batches: async () => {
    const t = await table();
    await call("insertEntity", t, entity("old"));
    const batch = new azure.TableBatch();
    for (let i = 0; i < 96; i++) batch.insertEntity(entity(`n${i}`, { i: gen.Int32(i) }), { echoContent: i % 5 === 0 });
    batch.deleteEntity(entity("old"));
    batch.insertOrReplaceEntity(entity("o"));
    batch.insertOrMergeEntity(entity("m"));
    batch.insertOrMergeEntity(entity("it's"));
    const [results] = await call("executeBatch", t, batch);
    assert.equal(results.length, 100);
    assert.ok(results.every((each) => each.response.isSuccessful));
    assert.equal(results[0].entity.i._, 0);
    assert.equal(results[5].entity.i._, 5);
    assert.ok(results[7].entity[".metadata"].etag);
    const query = new azure.TableBatch();
    query.retrieveEntity("p", "n7");
    assert.equal((await call("executeBatch", t, query))[0][0].entity.i._, 7);
  },
  "refused batches": async () => {
    const t = await table();
    await call("insertEntity", t, entity("r"));
    const batch = new azure.TableBatch();
    batch.insertEntity(entity("a"));
    batch.insertEntity(entity("r"));
    await refused(() => call("executeBatch", t, batch), 409, "EntityAlreadyExists", (error) => [error.statusCode, error.code]);
    await refused(() => call("retrieveEntity", t, "p", "a"), 404, "ResourceNotFound", read);
  },
  filters: async () => {
    const t = await table();
    const day = (n) => new Date(Date.UTC(2024, 0, n));
    for (let i = 1; i <= 5; i++) {
      const properties = { n: gen.Int32(i), big: gen.Int64(String(i)), on: gen.DateTime(day(i)), odd: gen.Boolean(i % 2 === 1), d: gen.Double(i / 2), s: gen.String(`o'${i}`) };
      await call("insertEntity", t, entity(`r${i}`, properties));
    }
    const rows = async (query) => (await call("queryEntities", t, query, null))[0].entries.map((each) => each.RowKey._);
    assert.deepEqual(await rows(new Query().where("n gt ?", 2).and("n le ?", 4)), ["r3", "r4"]);
    assert.deepEqual(await rows(new Query().where("on lt ?date?", day(3))), ["r1", "r2"]);
    assert.deepEqual(await rows(new Query().where("odd == ?bool?", true).and("s ne ?", "o'3")), ["r1", "r5"]);
    assert.deepEqual(await rows(new Query().where(Query.int64Filter("big", ">=", "4"))), ["r4", "r5"]);
    assert.deepEqual(await rows(new Query().where("d == ?double?", 1.5).or("RowKey eq ?", "r1")), ["r1", "r3"]);
    assert.deepEqual(await rows(new Query().top(2)), ["r1", "r2"]);
    const [first] = (await call("queryEntities", t, new Query().select("n").where("RowKey eq ?", "r1"), null))[0].entries;
    assert.deepEqual([first.n._, first.s], [1, undefined]);
  },
  pages: async () => {
    const t = await table();
    for (let start = 0; start < 1100; start += 100) {
      const batch = new azure.TableBatch();
      for (let i = start; i < start + 100; i++) batch.insertEntity(entity(String(i).padStart(5, "0")));
      await call("executeBatch", t, batch);
    }
    const sizes = [];
    let token = null;
    do {
      const [page] = await call("queryEntities", t, new Query(), token);
      sizes.push(page.entries.length);
      token = page.continuationToken;
    } while (token);
    assert.deepEqual(sizes, [1000, 100]);
  },
  SAS: async () => {
    const t = await table();
    await call("insertEntity", t, entity("r"));
    const policy = { AccessPolicy: { Permissions: "r", Expiry: new Date(Date.now() + 3600e3) } };
    const by = (token) => azure.createTableServiceWithSas(ENDPOINT, token).withFilter(new azure.LinearRetryPolicyFilter(0, 1));
    const reader = by(service.generateSharedAccessSignature(t, policy));
    assert.equal((await called(reader, "retrieveEntity", t, "p", "r"))[0].RowKey._, "r");
    await refused(() => called(reader, "insertEntity", t, entity("s")), 403, "AuthorizationPermissionMismatch", read);
    await call("setTableAcl", t, { all: { Permissions: "raud", Start: new Date(0), Expiry: new Date(Date.now() + 3600e3) } });
    assert.equal((await call("getTableAcl", t))[0].signedIdentifiers.all.Permissions, "raud");
    const named = by(service.generateSharedAccessSignature(t, { Id: "all" }));
    await called(named, "insertEntity", t, entity("s"));
    await call("setTableAcl", t, {});
    await refused(() => called(named, "insertEntity", t, entity("t")), 403, "AuthenticationFailed", read);
  },
  "service properties": async () => {
    const rule = { AllowedOrigins: ["*"], AllowedMethods: ["GET"], AllowedHeaders: ["*"], ExposedHeaders: ["*"], MaxAgeInSeconds: 60 };
    const [before] = await call("getServiceProperties");
    assert.ok(before.Logging);
    await call("setServiceProperties", { Cors: { CorsRule: [rule] } });
    assert.equal((await call("getServiceProperties"))[0].Cors.CorsRule[0].MaxAgeInSeconds, 60);
    await call("setServiceProperties", { Cors: {} });
  },
});
