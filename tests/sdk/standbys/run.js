// The SDK for JavaScript with a primary and a standby. It has no retry to the secondary endpoint: a second client reads there.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { lookup } = require("node:dns");
const dns = require("node:dns");
const path = require("node:path");
const { test } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");

// Not every resolver knows names of localhost. The SDK asks when it connects.
dns.lookup = (host, ...rest) => lookup(host.endsWith(".localhost") ? "127.0.0.1" : host, ...rest);
const { AzureNamedKeyCredential, TableClient, TableServiceClient } = require("@azure/data-tables");

const { SDK_ACCOUNT: ACCOUNT, SDK_KEY: KEY, SDK_PORT: PORT } = process.env;
const CREDENTIAL = new AzureNamedKeyCredential(ACCOUNT, KEY);
const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const endpoint = (account) => `http://${account}.table.localhost:${PORT}`;

const control = (what) => execFileSync(path.join(__dirname, "control.sh"), [what], { stdio: "inherit" });

async function becomes(what, condition) {
  for (let i = 0; i < 600; i++) {
    if (await condition()) return;
    await sleep(100);
  }
  assert.fail(`it does not happen in a minute: ${what}`);
}

const entity = (rowKey) => ({ partitionKey: "p", rowKey });
const fails = (call, status) => assert.rejects(call, (error) => error.statusCode === status);

test("a second client reads while the primary is away, and the statistics tell the state", async () => {
  const service = new TableServiceClient(endpoint(ACCOUNT), CREDENTIAL, OPTIONS);
  const primary = new TableClient(endpoint(ACCOUNT), "JavaScript", CREDENTIAL, OPTIONS);
  const secondary = new TableClient(endpoint(`${ACCOUNT}-secondary`), "JavaScript", CREDENTIAL, OPTIONS);
  const state = async () => (await service.getStatistics()).geoReplication;
  const is = (status) => async () => (await state()).status === status;

  // The gateway has started while the standby stood still, so it does not know how far the standby is.
  await becomes("bootstrap", is("bootstrap"));
  assert.equal(Number.isFinite(Number((await state()).lastSyncTime ?? NaN)), false);
  await primary.createTable();
  await primary.createEntity(entity("r"));
  await fails(secondary.getEntity("p", "r"), 503);
  control("resume");
  await becomes("live", is("live"));
  await becomes("the standby has it", () => secondary.getEntity("p", "r").then(() => true, () => false));
  await fails(secondary.createEntity(entity("s")), 403);

  control("crash");
  assert.equal((await secondary.getEntity("p", "r")).rowKey, "r");
  await fails(primary.getEntity("p", "r"), 503);
  await fails(primary.createEntity(entity("away")), 503);
  const { status, lastSyncTime } = await state();
  assert.deepEqual([status, lastSyncTime instanceof Date && Number.isFinite(lastSyncTime.getTime())], ["live", true]);
  control("again");
  await becomes("writes succeed again", () => primary.upsertEntity(entity("again")).then(() => true, () => false));
  await becomes("LastSyncTime goes on", async () => (await state()).lastSyncTime > lastSyncTime);

  control("stop");
  await becomes("unavailable", is("unavailable"));
  assert.equal(Number.isFinite(Number((await state()).lastSyncTime ?? NaN)), false);
  await fails(secondary.getEntity("p", "r"), 503);
  assert.equal((await primary.getEntity("p", "r")).rowKey, "r");
  control("start");
  await becomes("live", is("live"));
  await primary.deleteTable();
});
