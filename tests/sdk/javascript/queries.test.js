"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { odata } = require("@azure/data-tables");
const { bare, collect, key, newTable, refused, tableClient } = require("./support.js");

const rows = (entities) => entities.map(({ partitionKey, rowKey }) => partitionKey + rowKey);

describe("queries", () => {
  test("filters with values", async () => {
    const born = new Date("2022-04-13T21:50:14.247Z");
    const table = await newTable(
      key("1", { name: "Don", age: 34, big: 1099511627776n, active: true }, "a"),
      key("2", { name: "O'Brien", age: 50, born, active: false }, "a"),
      key("1", { name: "日本 & co + %", score: 1.5, id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" } }, "b"),
    );
    for (const [filter, expected] of [
      [odata`name eq ${"O'Brien"}`, ["a2"]],
      [odata`name eq ${"日本 & co + %"}`, ["b1"]],
      [odata`age gt ${30} and active eq ${true}`, ["a1"]],
      [odata`born eq ${born}`, ["a2"]],
      [odata`score lt ${1.75}`, ["b1"]],
      ["big eq 1099511627776L", ["a1"]],
      ["id eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'", ["b1"]],
      [odata`PartitionKey eq ${"a"} and RowKey ge ${"2"}`, ["a2"]],
      [odata`not (PartitionKey eq ${"a"})`, ["b1"]],
      [odata`name eq ${"absent"}`, []],
      ["", ["a1", "a2", "b1"]],
    ]) {
      assert.deepEqual(rows(await collect(table.listEntities({ queryOptions: { filter } }))), expected, filter);
    }
    for (const [filter, status, code] of [["name eq", 400, "InvalidInput"], ["name eq 'open", 400, "InvalidInput"], ["name eq age", 501, "NotImplemented"]]) {
      await refused(collect(table.listEntities({ queryOptions: { filter } })), status, code);
    }
    const selected = await collect(table.listEntities({ queryOptions: { filter: "PartitionKey eq 'a'", select: ["rowKey", "born"] } }));
    assert.deepEqual(selected.map(bare), [{ rowKey: "1", born: null }, { rowKey: "2", born }]);
  });

  test("pages and tokens", async () => {
    const keys = ["00", "01", "02", "03", "04", "05", "06"];
    const table = await newTable(...keys.map((row) => key(row, { n: Number(row) }, "p q'%é+")));
    const page = (entities) => entities.map(({ rowKey }) => rowKey);
    for (const queryOptions of [{}, { filter: "n ge 0" }, { select: ["rowKey"] }]) {
      const pages = await collect(table.listEntities({ queryOptions }).byPage({ maxPageSize: 3 }));
      assert.deepEqual(pages.map(page), [keys.slice(0, 3), keys.slice(3, 6), keys.slice(6)]);
    }
    const first = await table.listEntities().byPage({ maxPageSize: 2 }).next();
    const { continuationToken } = first.value;
    assert.ok(continuationToken);
    // An entity that is deleted meanwhile is not missed.
    await table.deleteEntity("p q'%é+", "02");
    const rest = await collect(tableClient(table.tableName).listEntities().byPage({ maxPageSize: 4, continuationToken }));
    assert.deepEqual(rest.map(page), [keys.slice(3)]);
    assert.deepEqual(page(await collect(table.listEntities())), keys.filter((row) => row !== "02"));
  });
});
