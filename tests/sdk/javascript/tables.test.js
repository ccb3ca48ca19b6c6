"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { TableClient, TableServiceClient, odata } = require("@azure/data-tables");
const { CONNECTION_STRING, ENDPOINT, OPTIONS, collect, constructed, freeName, key, names, newTable, refused, serviceClient, tableClient } =
  require("./support.js");

const service = serviceClient();

describe("tables", () => {
  test("create and delete", async () => {
    const name = freeName();
    await service.createTable(name);
    // The SDK takes the answer that there is one for success.
    await service.createTable(name.toUpperCase());
    const table = tableClient(name.toLowerCase());
    await table.createTable();
    assert.equal(table.tableName, name.toLowerCase());
    await service.deleteTable(name);
    await service.deleteTable(name);
    await table.deleteTable();
    await refused(table.getEntity("p", "r"), 404, "TableNotFound");
    await table.createTable();
    assert.deepEqual(await collect(table.listEntities()), []);
  });

  test("names that no table can have", async () => {
    for (const [name, code] of [["ab", "OutOfRangeInput"], ["a".repeat(64), "OutOfRangeInput"], ["1abc", "InvalidResourceName"], ["a_b", "InvalidResourceName"]]) {
      await refused(service.createTable(name), 400, code);
      await refused(tableClient(name).createTable(), 400, code);
    }
  });

  test("list, filter and pages", async () => {
    const prefix = freeName().slice(0, 20);
    const created = ["a", "b", "c", "d", "e"].map((letter) => prefix + letter);
    for (const name of created) {
      names.push(name);
      await service.createTable(name);
    }
    const listed = (await collect(service.listTables())).map((table) => table.name);
    assert.deepEqual(listed.filter((name) => name.startsWith(prefix)), created);
    const filter = odata`TableName ge ${created[1]} and TableName lt ${created[4]}`;
    const found = await collect(service.listTables({ queryOptions: { filter } }));
    assert.deepEqual(found.map((table) => table.name), created.slice(1, 4));
    const pages = service.listTables({ queryOptions: { filter: odata`TableName ge ${prefix} and TableName le ${created[4]}` } });
    const first = await pages.byPage({ maxPageSize: 2 }).next();
    assert.deepEqual(first.value.map((table) => table.name), created.slice(0, 2));
    assert.ok(first.value.continuationToken);
    const rest = await collect(pages.byPage({ maxPageSize: 2, continuationToken: first.value.continuationToken }));
    assert.deepEqual(rest.map((page) => page.map((table) => table.name)), [created.slice(2, 4), created.slice(4)]);
  });

  test("ways to make a client", async () => {
    const table = await newTable(key());
    for (const other of [
      constructed(TableClient, "fromConnectionString", CONNECTION_STRING, table.tableName, OPTIONS),
      tableClient(table.tableName, undefined, `${ENDPOINT}/`),
    ]) {
      assert.equal((await other.getEntity("p", "r")).rowKey, "r");
      assert.ok(other.url.startsWith(ENDPOINT));
      assert.ok(other.pipeline);
    }
    const other = constructed(TableServiceClient, "fromConnectionString", CONNECTION_STRING, OPTIONS);
    assert.ok((await collect(other.listTables())).some(({ name }) => name === table.tableName));
    assert.ok(other.url.startsWith(ENDPOINT));
    assert.ok(other.pipeline);
  });
});
