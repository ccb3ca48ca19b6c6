// The current SDK for JavaScript, @azure/data-tables.
"use strict";

const { ACCOUNT, CONNECTION_STRING, ENDPOINT, KEY, assert, freeName, points, refused } = require("./support");
const sdk = require("@azure/data-tables");

const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const credential = new sdk.AzureNamedKeyCredential(ACCOUNT, KEY);
const service = sdk.TableServiceClient.fromConnectionString(CONNECTION_STRING, options);
const client = (name, by = credential) => new sdk.TableClient(ENDPOINT, name, by, options);
const read = (error) => [error.statusCode, error.details?.odataError?.code ?? error.code];

async function table() {
  const made = client(freeName());
  await made.createTable();
  return made;
}
async function collect(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}
const entity = (rowKey, properties = {}) => ({ partitionKey: "p", rowKey, ...properties });

points({
  tables: async () => {
    const name = freeName();
    await service.createTable(name);
    await service.createTable(name); // the SDK takes "exists" for success
    const listed = await collect(service.listTables({ queryOptions: { filter: sdk.odata`TableName eq ${name}` } }));
    assert.deepEqual(listed.map((each) => each.name), [name]);
    await service.deleteTable(name);
    assert.equal((await collect(service.listTables())).filter((each) => each.name === name).length, 0);
    await refused(() => client(name).createEntity(entity("r")), 404, "TableNotFound", read);
  },
  "all types": async () => {
    const t = await table();
    const values = {
      text: "größe 𝄞 'quoted'",
      int: 42,
      long: 9007199254740993n,
      double: { type: "Double", value: "1.5" },
      whole: { type: "Double", value: "3.0" },
      yes: true,
      when: new Date("2024-02-29T12:34:56.789Z"),
      guid: { type: "Guid", value: "fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f" },
      bytes: new Uint8Array([0, 1, 254, 255]),
    };
    await t.createEntity(entity("r", values));
    const typed = await t.getEntity("p", "r", { disableTypeConversion: true });
    const shown = (name) => `${typed[name].type} ${typed[name].value}`;
    assert.deepEqual(
      ["text", "int", "long", "double", "yes", "when", "guid", "bytes"].map(shown),
      [
        `String ${values.text}`, "Int32 42", "Int64 9007199254740993", "Double 1.5", "Boolean true",
        "DateTime 2024-02-29T12:34:56.789Z", "Guid fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f", "Binary AAH+/w==",
      ],
    );
    const plain = await t.getEntity("p", "r");
    assert.equal(plain.long, values.long);
    assert.equal(plain.when.getTime(), values.when.getTime());
    assert.deepEqual(Buffer.from(plain.bytes), Buffer.from(values.bytes));
  },
  writes: async () => {
    const t = await table();
    await t.createEntity(entity("r", { a: 1, b: 1 }));
    await t.updateEntity(entity("r", { b: 2 }), "Merge");
    assert.deepEqual([(await t.getEntity("p", "r")).a, (await t.getEntity("p", "r")).b], [1, 2]);
    await t.updateEntity(entity("r", { c: 3 }), "Replace");
    assert.deepEqual([(await t.getEntity("p", "r")).a, (await t.getEntity("p", "r")).c], [undefined, 3]);
    await t.upsertEntity(entity("s", { a: 1 }), "Merge");
    await t.upsertEntity(entity("s", { b: 1 }), "Replace");
    assert.equal((await t.getEntity("p", "s")).a, undefined);
    await t.deleteEntity("p", "s");
    await t.createEntity(entity("it's / % ü".replace("/", "")));
    assert.equal((await t.getEntity("p", "it's  % ü")).rowKey, "it's  % ü");
  },
  conflicts: async () => {
    const t = await table();
    const { etag } = await t.createEntity(entity("r", { a: 1 }));
    await refused(() => t.createEntity(entity("r")), 409, "EntityAlreadyExists", read);
    await refused(() => t.getEntity("p", "missing"), 404, "ResourceNotFound", read);
    await t.updateEntity(entity("r", { a: 2 }), "Replace", { etag });
    await refused(() => t.updateEntity(entity("r", { a: 3 }), "Replace", { etag }), 412, "UpdateConditionNotSatisfied", read);
    await refused(() => t.deleteEntity("p", "r", { etag }), 412, "UpdateConditionNotSatisfied", read);
    await refused(() => t.updateEntity(entity("missing"), "Merge"), 404, "ResourceNotFound", read);
  },
  batches: async () => {
    const t = await table();
    await t.createEntity(entity("old"));
    const { etag } = await t.createEntity(entity("kept"));
    const transaction = new sdk.TableTransaction();
    for (let i = 0; i < 96; i++) transaction.createEntity(entity(`n${i}`, { i }));
    transaction.deleteEntity("p", "old");
    transaction.updateEntity(entity("kept", { a: 1 }), "Replace", { etag });
    transaction.upsertEntity(entity("m", { a: 1 }), "Merge");
    transaction.upsertEntity(entity("o", { a: 1 }), "Replace");
    const done = await t.submitTransaction(transaction.actions);
    assert.equal(done.subResponses.length, 100);
    assert.ok(done.getResponseForEntity("n5").etag);
    assert.equal((await collect(t.listEntities())).length, 99);
  },
  "refused batches": async () => {
    const t = await table();
    await t.createEntity(entity("r"));
    const actions = [["create", entity("a")], ["create", entity("r")]];
    await refused(() => t.submitTransaction(actions), 409, "EntityAlreadyExists", read);
    await refused(() => t.getEntity("p", "a"), 404, "ResourceNotFound", read);
    await refused(() => t.submitTransaction([["create", entity("b")], ["create", entity("b")]]), 400, "InvalidDuplicateRow", read);
  },
  filters: async () => {
    const t = await table();
    const day = (n) => new Date(Date.UTC(2024, 0, n));
    for (let i = 1; i <= 5; i++) await t.createEntity(entity(`r${i}`, { n: i, big: BigInt(i), on: day(i), odd: i % 2 === 1, d: i / 2, s: `o'${i}` }));
    const rows = async (filter, select) => (await collect(t.listEntities({ queryOptions: { filter, select } }))).map((each) => each.rowKey);
    assert.deepEqual(await rows(sdk.odata`n gt ${2} and n le ${4}`), ["r3", "r4"]);
    assert.deepEqual(await rows(sdk.odata`on lt ${day(3)}`), ["r1", "r2"]);
    assert.deepEqual(await rows(sdk.odata`odd eq ${true} and not (s eq ${"o'3"})`), ["r1", "r5"]);
    assert.deepEqual(await rows(sdk.odata`big ge ${4n}`), ["r4", "r5"]);
    assert.deepEqual(await rows("d eq 1.5 or RowKey eq 'r1'"), ["r1", "r3"]);
    const [first] = await collect(t.listEntities({ queryOptions: { filter: "RowKey eq 'r1'", select: ["n"] } }));
    assert.deepEqual([first.n, first.s], [1, undefined]);
    await refused(() => rows("n gt"), 400, "InvalidInput", read);
  },
  pages: async () => {
    const t = await table();
    for (let start = 0; start < 1100; start += 100) {
      await t.submitTransaction(Array.from({ length: 100 }, (_, i) => ["create", entity(String(start + i).padStart(5, "0"))]));
    }
    const sizes = [];
    for await (const page of t.listEntities().byPage()) sizes.push(page.length);
    assert.deepEqual(sizes, [1000, 100]);
    const small = [];
    for await (const page of t.listEntities({ queryOptions: { filter: "RowKey ge '00900'" } }).byPage({ maxPageSize: 80 })) small.push(page.length);
    assert.deepEqual(small, [80, 80, 40]);
  },
  SAS: async () => {
    const t = await table();
    await t.createEntity(entity("r"));
    const permissions = { query: true };
    const token = sdk.generateTableSas(t.tableName, credential, { permissions, expiresOn: new Date(Date.now() + 3600e3) });
    const reader = client(t.tableName, new sdk.AzureSASCredential(token));
    assert.equal((await reader.getEntity("p", "r")).rowKey, "r");
    await refused(() => reader.createEntity(entity("s")), 403, "AuthorizationPermissionMismatch", read);
    const account = sdk.generateAccountSas(credential, { expiresOn: new Date(Date.now() + 3600e3) });
    await client(t.tableName, new sdk.AzureSASCredential(account)).deleteEntity("p", "r").catch((error) => assert.equal(error.statusCode, 403));
    await t.setAccessPolicy([{ id: "all", accessPolicy: { start: new Date(0), expiry: new Date(Date.now() + 3600e3), permission: "raud" } }]);
    const named = client(t.tableName, new sdk.AzureSASCredential(sdk.generateTableSas(t.tableName, credential, { identifier: "all" })));
    await named.createEntity(entity("s"));
    await t.setAccessPolicy([]);
    await refused(() => named.createEntity(entity("t")), 403, "AuthenticationFailed", read);
  },
  "service properties": async () => {
    const before = await service.getProperties();
    assert.ok(before.logging);
    await service.setProperties({ cors: [{ allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 60 }] });
    assert.equal((await service.getProperties()).cors[0].maxAgeInSeconds, 60);
    await service.setProperties({ cors: [] });
  },
});
