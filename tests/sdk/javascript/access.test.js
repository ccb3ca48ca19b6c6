"use strict";

const assert = require("node:assert/strict");
const { describe, test } = require("node:test");
const { AzureNamedKeyCredential, AzureSASCredential, TableClient, generateAccountSas, generateTableSas } = require("@azure/data-tables");
const { ACCOUNT, CREDENTIAL, ENDPOINT, OPTIONS, collect, freeName, key, newTable, refused, serviceClient, tableClient } = require("./support.js");

const HOUR = 3_600_000;
const later = (milliseconds = HOUR) => new Date(Date.now() + milliseconds);
const sasClient = (name, token) => tableClient(name, new AzureSASCredential(token));
const tableSas = (name, options) => sasClient(name, generateTableSas(name, CREDENTIAL, options));
const rows = async (table) => (await collect(table.listEntities())).map(({ partitionKey, rowKey }) => partitionKey + rowKey);

describe("access", () => {
  test("a wrong key", async () => {
    const table = await newTable(key());
    const wrong = tableClient(table.tableName, new AzureNamedKeyCredential(ACCOUNT, "bm90IHRoZSBrZXk="));
    for (const call of [
      () => wrong.getEntity("p", "r"), () => wrong.createEntity(key("s")), () => collect(wrong.listEntities()),
      () => wrong.submitTransaction([["create", key("s")]]).catch((error) => { throw Object.assign(error, { code: error.code ?? "AuthenticationFailed" }); }),
      () => wrong.deleteTable(), () => wrong.getAccessPolicy(),
    ]) {
      await refused(call(), 403, "AuthenticationFailed");
    }
    assert.deepEqual(await rows(table), ["pr"]);
  });

  test("table signatures allow their operations", async () => {
    const table = await newTable(key("r", { a: 1 }), key("gone"));
    const other = await newTable(key());
    const readers = tableSas(table.tableName, { permissions: { query: true }, expiresOn: later() });
    assert.equal((await readers.getEntity("p", "r")).a, 1);
    assert.equal((await rows(readers)).length, 2);
    for (const call of [
      () => readers.createEntity(key("s")), () => readers.updateEntity(key("r")), () => readers.upsertEntity(key("r")), () => readers.deleteEntity("p", "r"),
    ]) {
      await refused(call(), 403, "AuthorizationPermissionMismatch");
    }
    // No signature of a table allows these.
    for (const call of [() => readers.getAccessPolicy(), () => readers.deleteTable()]) {
      await refused(call(), 403, "AuthorizationFailure");
    }
    const token = generateTableSas(table.tableName, CREDENTIAL, { permissions: { query: true, add: true, update: true, delete: true }, expiresOn: later() });
    const all = sasClient(table.tableName, token);
    await all.createEntity(key("s"));
    await all.upsertEntity(key("s", { b: 1 }));
    await all.submitTransaction([["create", key("t")], ["update", key("s", { c: 1 })], ["delete", key("gone")]]);
    assert.deepEqual(await rows(table), ["pr", "ps", "pt"]);
    await refused(sasClient(other.tableName, token).getEntity("p", "r"), 403, "AuthorizationFailure");
    await refused(collect(serviceClient(new AzureSASCredential(token)).listTables()), 403, "AuthorizationFailure");
    // In the URL itself.
    const inUrl = new TableClient(`${ENDPOINT}?${token}`, table.tableName, OPTIONS);
    assert.equal((await inUrl.getEntity("p", "r")).a, 1);
  });

  test("key ranges", async () => {
    const all = ["a", "b", "c", "d"].flatMap((partition) => ["1", "2", "3"].map((row) => key(row, {}, partition)));
    const table = await newTable(...all);
    const limited = tableSas(table.tableName, {
      permissions: { query: true, add: true, update: true }, expiresOn: later(),
      startPartitionKey: "b", startRowKey: "2", endPartitionKey: "c", endRowKey: "1",
    });
    const inside = ["b2", "b3", "c1"];
    assert.deepEqual(await rows(limited), inside);
    for (const { partitionKey, rowKey } of all) {
      for (const call of [() => limited.getEntity(partitionKey, rowKey), () => limited.upsertEntity({ partitionKey, rowKey, n: 1 })]) {
        if (inside.includes(partitionKey + rowKey)) await call();
        else await refused(call(), 403, "AuthorizationFailure");
      }
    }
  });

  test("times, addresses, protocols", async () => {
    const table = await newTable(key());
    const permissions = { query: true };
    for (const [options, code] of [
      [{ expiresOn: later(-HOUR) }, "AuthenticationFailed"],
      [{ startsOn: later(), expiresOn: later(2 * HOUR) }, "AuthenticationFailed"],
      [{ expiresOn: later(), ipRange: { start: "203.0.113.7" } }, "AuthorizationSourceIPMismatch"],
      [{ expiresOn: later(), protocol: "https" }, "AuthorizationProtocolMismatch"],
    ]) {
      await refused(tableSas(table.tableName, { permissions, ...options }).getEntity("p", "r"), 403, code);
    }
    const ipRange = { start: "127.0.0.1", end: "127.0.0.9" };
    await tableSas(table.tableName, { permissions, ipRange, protocol: "https,http", startsOn: later(-HOUR), expiresOn: later() }).getEntity("p", "r");
  });

  test("stored access policies", async () => {
    const table = await newTable(key());
    assert.deepEqual([...(await table.getAccessPolicy())], []);
    const start = new Date("2026-01-02T03:04:05Z");
    const expiry = new Date(Math.floor(later() / 1000) * 1000);
    const policies = [
      { id: "readers", accessPolicy: { start, expiry, permission: "r" } },
      { id: "expiry & more", accessPolicy: { expiry } },
    ];
    await table.setAccessPolicy(policies);
    const got = await table.getAccessPolicy();
    assert.deepEqual([got[0].id, got[0].accessPolicy.permission, got[0].accessPolicy.start, got[0].accessPolicy.expiry], ["readers", "r", start, expiry]);
    assert.deepEqual([got[1].id, got[1].accessPolicy.expiry, got[1].accessPolicy.permission], ["expiry & more", expiry, undefined]);
    const readers = tableSas(table.tableName, { identifier: "readers" });
    assert.equal((await readers.getEntity("p", "r")).rowKey, "r");
    await refused(readers.createEntity(key("s")), 403, "AuthorizationPermissionMismatch");
    await refused(tableSas(table.tableName, { identifier: "absent" }).getEntity("p", "r"), 403, "AuthenticationFailed");
    await refused(table.setAccessPolicy(Array.from({ length: 6 }, (_, n) => ({ id: String(n) }))), 400, "InvalidXmlDocument");
    await table.setAccessPolicy([]);
    assert.deepEqual([...(await table.getAccessPolicy())], []);
    await refused(readers.getEntity("p", "r"), 403, "AuthenticationFailed");
  });

  test("account signatures", async () => {
    const table = await newTable(key());
    const token = (resourceTypes, permissions, options) =>
      new AzureSASCredential(generateAccountSas(CREDENTIAL, { resourceTypes, permissions, expiresOn: later(), ...options }));
    const all = { query: true, write: true, delete: true, list: true, add: true, create: true, update: true };
    const service = serviceClient(token("sco", all));
    const name = freeName();
    await service.createTable(name);
    assert.ok((await collect(service.listTables())).some((item) => item.name === name));
    await service.getProperties();
    const entities = tableClient(name, token("sco", all));
    await entities.createEntity(key());
    await entities.submitTransaction([["upsert", key("s")]]);
    assert.equal((await entities.getEntity("p", "r")).rowKey, "r");
    await refused(entities.getAccessPolicy(), 403, "AuthorizationFailure");
    await service.deleteTable(name);

    const get = (credential) => tableClient(table.tableName, credential).getEntity("p", "r");
    await get(token("o", { query: true }));
    await refused(get(token("sc", all)), 403, "AuthorizationResourceTypeMismatch");
    await refused(get(token("o", { list: true, add: true })), 403, "AuthorizationPermissionMismatch");
    await refused(get(token("o", all, { expiresOn: later(-HOUR) })), 403, "AuthenticationFailed");
    await refused(get(token("o", all, { ipRange: { start: "203.0.113.7" } })), 403, "AuthorizationSourceIPMismatch");
    await refused(collect(serviceClient(token("o", all)).listTables()), 403, "AuthorizationResourceTypeMismatch");
  });

  test("service properties", async () => {
    const service = serviceClient();
    const retentionPolicy = { enabled: true, days: 5 };
    const off = { version: "1.0", enabled: false, retentionPolicy: { enabled: false } };
    const quiet = { version: "1.0", read: false, write: false, delete: false, retentionPolicy: { enabled: false } };
    const cors = [{ allowedOrigins: "http://a,http://b", allowedMethods: "GET,PUT", allowedHeaders: "x-ms-*", exposedHeaders: "*", maxAgeInSeconds: 500 }];
    await service.setProperties({
      logging: { version: "1.0", read: true, write: false, delete: true, retentionPolicy },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy },
      minuteMetrics: off,
      cors,
    });
    const got = await service.getProperties();
    assert.deepEqual([got.logging.read, got.logging.retentionPolicy.days, got.hourMetrics.includeAPIs, got.minuteMetrics.enabled], [true, 5, true, false]);
    assert.deepEqual(got.cors, cors);
    await service.setProperties({ logging: quiet, hourMetrics: off, minuteMetrics: off, cors: [] });
    assert.equal((await service.getProperties()).logging.read, false);
    await refused(service.setProperties({ cors: Array(6).fill(cors[0]) }), 400, "InvalidXmlDocument");
  });

  test("statistics come from the secondary endpoint", async () => {
    // The SDK puts -secondary after the first word of the host. A path-style endpoint has it in its path.
    const host = new URL(ENDPOINT).host;
    const service = serviceClient(CREDENTIAL, ENDPOINT.replace(host, "tables.localhost"));
    service.pipeline.addPolicy(
      {
        name: "pathStyleSecondary",
        sendRequest(request, next) {
          request.url = request.url.replace(`tables-secondary.localhost/${ACCOUNT}/`, `${host}/${ACCOUNT}-secondary/`);
          return next(request);
        },
      },
      { afterPolicies: ["tablesSecondaryEndpointPolicy"], beforePolicies: ["tablesNamedKeyCredentialPolicy"] },
    );
    const { geoReplication } = await service.getStatistics();
    assert.equal(geoReplication.status, "live");
    assert.ok(geoReplication.lastSyncTime);
    const table = await newTable(key());
    const secondary = tableClient(table.tableName, CREDENTIAL, `${ENDPOINT}-secondary`);
    assert.equal((await secondary.getEntity("p", "r")).rowKey, "r");
    await refused(secondary.createEntity(key("s")), 403, "InsufficientAccountPermissions");
  });
});
