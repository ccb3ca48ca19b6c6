"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { bare, collect, key, newTable, refused, transaction } = require("./support.js");

const PARTITION = "p q'é";
const entity = (rowKey, properties = {}) => key(rowKey, properties, PARTITION);

async function state(table) {
  return Object.fromEntries((await collect(table.listEntities())).map(bare).map(({ partitionKey, rowKey, ...rest }) => [rowKey, rest]));
}

describe("transactions", () => {
  test("every operation", async () => {
    const table = await newTable(...["merge", "replace", "upmerge", "upreplace", "delete"].map((row) => entity(row, { a: 1, b: 1 })));
    const actions = transaction();
    actions.createEntity(entity("create", { a: 2 }));
    actions.updateEntity(entity("merge", { a: 2 }), "Merge");
    actions.updateEntity(entity("replace", { a: 2 }), "Replace", {});
    actions.upsertEntity(entity("upmerge", { a: 2 }));
    actions.upsertEntity(entity("upreplace", { a: 2 }), "Replace");
    actions.deleteEntity(PARTITION, "delete");
    assert.equal(actions.actions.length, 6);
    const result = await table.submitTransaction(actions.actions);
    assert.equal(result.status, 202);
    assert.deepEqual(result.subResponses.map(({ status }) => status), Array(6).fill(204));
    assert.deepEqual(await state(table), { create: { a: 2 }, merge: { a: 2, b: 1 }, replace: { a: 2 }, upmerge: { a: 2, b: 1 }, upreplace: { a: 2 } });
    assert.equal(result.getResponseForEntity("create").etag, (await table.getEntity(PARTITION, "create")).etag);
    assert.equal(result.subResponses[1].etag, (await table.getEntity(PARTITION, "merge")).etag);
  });

  test("values with line ends and boundaries", async () => {
    const texts = ["a\r\nb\n\nc", "--batch_x--\r\n", "--changeset_y\r\nContent-Type: application/http\r\n\r\n", "日本\u2028😀"];
    const table = await newTable();
    await table.submitTransaction(texts.map((text, n) => ["create", entity(String(n), { text })]));
    assert.deepEqual(Object.values(await state(table)).map(({ text }) => text), texts);
  });

  test("etags", async () => {
    const table = await newTable(entity("a", { a: 1 }), entity("b", { a: 1 }));
    const { etag } = await table.getEntity(PARTITION, "a");
    await table.submitTransaction([["update", entity("a", { a: 2 }), "Merge", { etag }]]);
    await assert.rejects(table.submitTransaction([["update", entity("b", { a: 3 })], ["update", entity("a", { a: 3 }), "Merge", { etag }]]), (error) => {
      assert.deepEqual([error.statusCode, error.code], [412, "UpdateConditionNotSatisfied"]);
      assert.match(error.message, /^1:/);
      return true;
    });
    assert.deepEqual(await state(table), { a: { a: 2 }, b: { a: 1 } });
  });

  test("a failure undoes everything", async () => {
    const table = await newTable(entity("there", { a: 1 }));
    for (const [action, status, code] of [
      [["create", entity("there")], 409, "EntityAlreadyExists"],
      [["update", entity("absent")], 404, "ResourceNotFound"],
      [["delete", entity("absent")], 404, "ResourceNotFound"],
      [["upsert", entity("large", { p: "x".repeat(32769) })], 400, "PropertyValueTooLarge"],
    ]) {
      await assert.rejects(table.submitTransaction([["create", entity("new")], ["upsert", entity("other")], action]), (error) => {
        assert.deepEqual([error.statusCode, error.code], [status, code]);
        assert.match(error.message, /^2:/);
        return true;
      });
      assert.deepEqual(await state(table), { there: { a: 1 } });
    }
    await refused(table.submitTransaction([["create", entity("a")], ["upsert", entity("b")], ["delete", entity("a")]]), 400, "InvalidDuplicateRow");
    // One partition: the SDK looks itself.
    await assert.rejects(table.submitTransaction([["create", entity("a")], ["create", key("b", {}, "other")]]));
    assert.deepEqual(await state(table), { there: { a: 1 } });
  });

  test("a hundred and no more, four mebibytes and no more", async () => {
    const table = await newTable();
    const actions = (count, properties) => Array.from({ length: count }, (_, n) => ["upsert", entity(String(n), properties)]);
    await table.submitTransaction(actions(100));
    await refused(table.submitTransaction(actions(101)), 400, "InvalidInput");
    const large = Object.fromEntries(Array.from({ length: 15 }, (_, n) => [`P${n}`, "x".repeat(32000)]));
    await refused(table.submitTransaction(actions(10, large)), 413, "RequestBodyTooLarge");
    await table.submitTransaction(actions(7, large));
    assert.equal(Object.keys(await state(table)).length, 100);
  });
});
