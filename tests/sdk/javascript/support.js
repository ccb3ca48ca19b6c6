// The common parts of the tests: where the service is, clients that note calls, tables that go when the tests end.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { after } = require("node:test");
const sdk = require("@azure/data-tables");

const { SDK_ENDPOINT: ENDPOINT, SDK_ACCOUNT: ACCOUNT, SDK_KEY: KEY } = process.env;
const CREDENTIAL = new sdk.AzureNamedKeyCredential(ACCOUNT, KEY);
const CONNECTION_STRING =
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${ENDPOINT};`;
// A failure is to be seen, not repeated.
const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

// `Class.method` of everything that was called.
const calls = new Set();

function noted(object, name = object.constructor.name) {
  return new Proxy(object, {
    get(target, property) {
      const value = target[property];
      if (typeof property === "string") calls.add(`${name}.${property}`);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

// A client made by a static method of the class.
function constructed(cls, method, ...rest) {
  calls.add(`${cls.name}.${method}`);
  return noted(cls[method](...rest));
}

function serviceClient(credential = CREDENTIAL, endpoint = ENDPOINT, options = {}) {
  return noted(new sdk.TableServiceClient(endpoint, credential, { ...OPTIONS, ...options }));
}

function tableClient(name, credential = CREDENTIAL, endpoint = ENDPOINT, options = {}) {
  return noted(new sdk.TableClient(endpoint, name, credential, { ...OPTIONS, ...options }));
}

function transaction() {
  return noted(new sdk.TableTransaction());
}

const names = [];
function freeName() {
  const name = `J${randomUUID().replaceAll("-", "")}`;
  names.push(name);
  return name;
}

after(async () => {
  const service = serviceClient();
  for (const name of names) await service.deleteTable(name);
});

// A client of a new table with these entities.
async function newTable(...entities) {
  const table = tableClient(freeName());
  await table.createTable();
  for (const entity of entities) await table.createEntity(entity);
  return table;
}

async function collect(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

const key = (rowKey = "r", properties = {}, partitionKey = "p") => ({ partitionKey, rowKey, ...properties });

// A stored entity, without the members that the service adds.
function bare(entity) {
  const { etag, timestamp, "odata.metadata": metadata, ...rest } = entity;
  return rest;
}

// The service's error code: in the body, or with XML in a header. `error.code` is the SDK's own, except in transactions.
function codeOf(error) {
  return error.details?.odataError?.code ?? error.response?.headers.get("x-ms-error-code") ?? error.code;
}

// The call ends in this status and error code.
async function refused(call, status, code) {
  await assert.rejects(call, (error) => {
    assert.deepEqual([error.statusCode, codeOf(error)], [status, code], error);
    return true;
  });
}

module.exports = {
  ...{ ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, OPTIONS },
  ...{ bare, calls, codeOf, collect, constructed, freeName, key, names, newTable, refused, serviceClient, tableClient, transaction },
};
