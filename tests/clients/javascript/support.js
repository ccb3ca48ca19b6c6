// The common parts of the programs: where the gateway is, and the points. Each point prints one line.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");

const {
  CLIENT_ACCOUNT: ACCOUNT,
  CLIENT_KEY: KEY,
  CLIENT_ENDPOINT: ENDPOINT, // http://127.0.0.1:PORT/ACCOUNT
  CLIENT_TLS_PORT: TLS_PORT, // https://ACCOUNT.table.core.windows.net is there too, for clients that know no other name
} = process.env;
const CONNECTION_STRING = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${ENDPOINT};`;

const freeName = () => `J${randomUUID().replaceAll("-", "")}`;

// points({ name: async () => ... }): runs them in turn. A point holds if it throws nothing.
async function points(all) {
  for (const [name, body] of Object.entries(all)) {
    let limit;
    const late = new Promise((_, reject) => {
      limit = setTimeout(() => reject(new Error("no answer after 60 seconds")), 60000);
    });
    try {
      await Promise.race([body(), late]);
      console.log(JSON.stringify({ point: name, ok: true }));
    } catch (error) {
      const text = typeof error === "object" ? `${error?.code ?? ""} ${error?.message ?? JSON.stringify(error)}` : String(error);
      console.log(JSON.stringify({ point: name, ok: false, error: text.trim() }));
      if (process.env.CLIENT_VERBOSE) console.error(error);
    } finally {
      clearTimeout(limit);
    }
  }
  process.exit(0); // whatever connections and timers the client keeps
}

// refused(call, status, code): the call fails, with this status and error code; `read` takes both from the client's error.
async function refused(call, status, code, read) {
  let error;
  try {
    await call();
  } catch (thrown) {
    error = thrown;
  }
  assert.ok(error, `not refused with ${status} ${code}`);
  assert.deepEqual(read(error), [status, code], `${error.message ?? JSON.stringify(error)}`);
}

// Calls a function with a callback as its last argument, and gives all that the callback gets besides the error.
function called(object, method, ...rest) {
  return new Promise((resolve, reject) => {
    object[method](...rest, (error, ...results) => (error ? reject(error) : resolve(results)));
  });
}

// For clients that speak HTTPS to ACCOUNT.table.core.windows.net only: an agent that finds the gateway under that name.
function cloudAgent() {
  const https = require("node:https");
  return new https.Agent({
    keepAlive: true,
    lookup: (_, options, done) => (options.all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4)),
    port: Number(TLS_PORT),
  });
}

module.exports = { ACCOUNT, KEY, ENDPOINT, TLS_PORT, CONNECTION_STRING, assert, called, cloudAgent, freeName, points, refused };
