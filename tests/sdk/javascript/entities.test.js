"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { bare, collect, freeName, key, newTable, refused, tableClient } = require("./support.js");

const SPECIAL_KEYS = [
  "", " ", "  spaces  ", "O'Brien", "''", "'", '"double"', "100%", "%27", "%2F", "a+b", "a&b=c", "a,b;c:d@e",
  "(PartitionKey='x',RowKey='y')", "<xml>", "~!$*", "[x]{y}|", "äöüß", "日本語", "😀👩‍👩‍👧", "e\u0301", "\u00a0", "null", "k".repeat(512),
];

describe("entities", () => {
  test("every type comes back as it went", async () => {
    const values = {
      text: "text", empty: "", unicode: "ä日本😀\t\n\"quoted\"\\", yes: true, no: false, int: 2147483647, negative: -2147483648,
      double: 0.1, tiny: 5e-324, huge: 1.7976931348623157e308, long: 9223372036854775807n, minus: -9223372036854775808n, small: 5n,
      time: new Date("2022-04-13T21:50:14.247Z"), first: new Date("1601-01-01T00:00:00Z"), bytes: new Uint8Array([0, 1, 255]),
      guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    };
    const table = await newTable(key("r", { ...values, nothing: null, absent: undefined }));
    const got = bare(await table.getEntity("p", "r"));
    assert.deepEqual({ ...got, bytes: new Uint8Array(got.bytes) }, key("r", values));
    // An entity that was read can be written back, and nothing changes.
    await table.updateEntity(await table.getEntity("p", "r"), "Replace");
    const again = bare(await table.getEntity("p", "r"));
    assert.deepEqual({ ...again, bytes: new Uint8Array(again.bytes) }, key("r", values));
  });

  test("types are told apart when asked", async () => {
    const typed = {
      bool: { type: "Boolean", value: "true" }, double: { type: "Double", value: "3.5" }, int: { type: "Int32", value: "3" },
      long: { type: "Int64", value: "3" }, text: { type: "String", value: "3" }, bytes: { type: "Binary", value: "AAEC" },
      time: { type: "DateTime", value: "2022-04-13T21:50:14.2477041Z" }, guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    };
    const table = await newTable(key("r", { ...typed, infinite: { type: "Double", value: "Infinity" }, nan: { type: "Double", value: "NaN" } }));
    const got = bare(await table.getEntity("p", "r", { disableTypeConversion: true }));
    assert.deepEqual(got, key("r", { ...typed, infinite: { type: "Double", value: "Infinity" }, nan: { type: "Double", value: "NaN" } }));
    const [listed] = await collect(table.listEntities({ disableTypeConversion: true }));
    assert.deepEqual(bare(listed).time, typed.time);
    const converted = await table.getEntity("p", "r");
    assert.equal(converted.time.toISOString(), "2022-04-13T21:50:14.247Z");
    assert.deepEqual([converted.bool, converted.int, converted.long, converted.text], [true, 3, 3n, "3"]);
  });

  test("insert, etags and what the service adds", async () => {
    const table = await newTable();
    const written = await table.createEntity(key("r", { a: 1 }));
    assert.match(written.etag, /^W\/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d+)?Z'"$/);
    assert.ok(written.requestId && written.date && written.version);
    assert.equal(written.preferenceApplied, "return-no-content");
    const got = await table.getEntity("p", "r");
    assert.equal(got.etag, written.etag);
    assert.ok(Date.now() - new Date(got.timestamp) < 60_000);
    await refused(table.createEntity(key("r", { a: 2 })), 409, "EntityAlreadyExists");
    assert.equal((await table.getEntity("p", "r")).a, 1);
  });

  test("merge, replace and upserts", async () => {
    const table = await newTable(key("r", { a: 1, b: 2 }));
    const state = async () => bare(await table.getEntity("p", "r"));
    await table.updateEntity(key("r", { b: 3, c: 4 }));
    assert.deepEqual(await state(), key("r", { a: 1, b: 3, c: 4 }));
    await table.updateEntity(key("r", { d: 5 }), "Replace");
    assert.deepEqual(await state(), key("r", { d: 5 }));
    await table.upsertEntity(key("r", { d: "five", e: 1 }), "Merge");
    assert.deepEqual(await state(), key("r", { d: "five", e: 1 }));
    const { etag } = await table.upsertEntity(key("r", { f: 1 }), "Replace");
    assert.deepEqual(await state(), key("r", { f: 1 }));
    assert.equal((await table.getEntity("p", "r")).etag, etag);
    for (const mode of ["Merge", "Replace"]) {
      await table.upsertEntity(key(mode, { a: 1 }), mode);
      await refused(table.updateEntity(key("absent"), mode), 404, "ResourceNotFound");
    }
    assert.equal((await collect(table.listEntities())).length, 3);
  });

  test("etags guard updates and deletes", async () => {
    const table = await newTable(key("r", { a: 1 }));
    const { etag: stale } = await table.getEntity("p", "r");
    const { etag } = await table.updateEntity(key("r", { a: 2 }), "Merge", { etag: stale });
    assert.notEqual(etag, stale);
    for (const mode of ["Merge", "Replace"]) {
      await refused(table.updateEntity(key("r", { a: 3 }), mode, { etag: stale }), 412, "UpdateConditionNotSatisfied");
    }
    await refused(table.deleteEntity("p", "r", { etag: stale }), 412, "UpdateConditionNotSatisfied");
    await table.updateEntity(key("r", { a: 4 }), "Merge", { etag: "*" });
    await refused(table.deleteEntity("p", "r", { etag }), 412, "UpdateConditionNotSatisfied");
    await table.deleteEntity("p", "r", { etag: (await table.getEntity("p", "r")).etag });
    await refused(table.getEntity("p", "r"), 404, "ResourceNotFound");
    await refused(table.deleteEntity("p", "r"), 404, "ResourceNotFound");
  });

  test("select", async () => {
    const table = await newTable(key("r", { a: 1, b: "two" }));
    const got = await table.getEntity("p", "r", { queryOptions: { select: ["a"] } });
    assert.deepEqual(bare(got), { a: 1 });
    assert.ok(got.etag);
    const some = await table.getEntity("p", "r", { queryOptions: { select: ["b", "absent"] } });
    assert.deepEqual(bare(some), { b: "two", absent: null });
  });

  test("special characters in keys", async () => {
    const table = await newTable();
    for (const special of SPECIAL_KEYS) {
      const entity = { partitionKey: special, rowKey: special, text: special };
      const { etag } = await table.createEntity(entity);
      assert.equal((await table.getEntity(special, special)).etag, etag, special);
      await table.updateEntity({ ...entity, n: 1 }, "Merge", { etag });
      await table.upsertEntity({ ...entity, m: 1 }, "Merge");
      assert.deepEqual(bare(await table.getEntity(special, special)), { ...entity, n: 1, m: 1 });
      await table.submitTransaction([["update", { ...entity, m: 2 }, "Replace"]]);
      assert.deepEqual(bare(await table.getEntity(special, special)), { ...entity, m: 2 });
      await table.deleteEntity(special, special);
    }
    assert.deepEqual(await collect(table.listEntities()), []);
    for (const character of ["\\", "#", "?", "/", "\t", "\u007f"]) {
      await assert.rejects(table.createEntity(key(`a${character}b`)), { statusCode: 400 });
    }
  });

  test("large entities", async () => {
    const table = await newTable();
    const large = key("r", Object.fromEntries(Array.from({ length: 15 }, (_, n) => [`P${n}`, "x".repeat(32768)])));
    await table.createEntity(large);
    assert.deepEqual(bare(await table.getEntity("p", "r")), large);
    await refused(table.createEntity(key("s", { p: "x".repeat(32769) })), 400, "PropertyValueTooLarge");
    await refused(table.upsertEntity(key("r", { q: "x".repeat(32768) })), 400, "EntityTooLarge");
    const many = Object.fromEntries(Array.from({ length: 253 }, (_, n) => [`P${n}`, n]));
    await refused(table.createEntity(key("s", many)), 400, "TooManyProperties");
    await refused(table.createEntity(key("s", { ["n".repeat(256)]: 1 })), 400, "PropertyNameTooLong");
  });

  test("absent tables", async () => {
    const table = tableClient(freeName());
    for (const call of [
      () => table.createEntity(key()), () => table.getEntity("p", "r"), () => table.updateEntity(key()), () => table.upsertEntity(key()),
      () => table.deleteEntity("p", "r"), () => collect(table.listEntities()), () => table.submitTransaction([["create", key()]]),
      () => table.getAccessPolicy(), () => table.setAccessPolicy([]),
    ]) {
      await refused(call(), 404, "TableNotFound");
    }
  });
});
