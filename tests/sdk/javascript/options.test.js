"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { TableClient } = require("@azure/data-tables");
const { CREDENTIAL, ENDPOINT, OPTIONS, collect, key, newTable } = require("./support.js");

describe("options of every call", () => {
  test("headers, request ids, answers", async () => {
    const table = await newTable(key());
    const answers = [];
    const options = {
      onResponse: (response) => answers.push(response),
      requestOptions: { customHeaders: { "x-own": "1", "x-ms-client-request-id": "own-id" }, timeout: 20_000 },
    };
    const own = new TableClient(ENDPOINT, table.tableName, CREDENTIAL, { ...OPTIONS, userAgentOptions: { userAgentPrefix: "tests" } });
    await own.getEntity("p", "r", options);
    await own.createEntity(key("s"), options);
    await own.updateEntity(key("s"), "Merge", options);
    await own.upsertEntity(key("s"), "Merge", options);
    await own.deleteEntity("p", "s", options);
    await own.getAccessPolicy(options);
    await collect(own.listEntities(options));
    assert.ok(answers.length >= 7);
    for (const { status, headers, request } of answers) {
      assert.ok(status < 300);
      assert.equal(request.headers.get("x-own"), "1");
      assert.match(request.headers.get("user-agent"), /^tests /);
      assert.match(headers.get("x-ms-request-id"), /^[0-9a-f-]{36}$/);
      assert.equal(headers.get("x-ms-client-request-id"), request.headers.get("x-ms-client-request-id"));
      assert.equal(headers.get("x-ms-version"), "2019-02-02");
    }
  });

  test("versions of the service, and calls that are given up", async () => {
    const table = await newTable(key());
    for (const version of ["2019-02-02", "2020-12-06"]) {
      const other = new TableClient(ENDPOINT, table.tableName, CREDENTIAL, { ...OPTIONS, version });
      let answer;
      await other.getEntity("p", "r", { onResponse: ({ headers }) => (answer = headers) });
      assert.equal(answer.get("x-ms-version"), version);
    }
    await assert.rejects(table.getEntity("p", "r", { abortSignal: AbortSignal.abort() }), { name: "AbortError" });
    assert.equal((await table.getEntity("p", "r")).rowKey, "r");
  });
});
