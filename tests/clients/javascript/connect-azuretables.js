// connect-azuretables, sessions of Express and Connect in a table, through azure-storage.
"use strict";

const { CONNECTION_STRING, assert, called, freeName, points } = require("./support");

process.env.AZURE_STORAGE_CONNECTION_STRING = CONNECTION_STRING;
const AzureTablesStoreFactory = require("connect-azuretables")(require("express-session"));
const azure = require("azure-storage");

const problems = [];
const errorLogger = (text) => problems.push(text);
const table = freeName();
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function store(options = {}) {
  const made = AzureTablesStoreFactory.create({ table, errorLogger, overrideCron: "* * * * * *", ...options });
  const service = azure.createTableService(CONNECTION_STRING);
  while (!(await called(service, "doesTableExist", table))[0].exists) await wait(50); // it makes its table in the background
  return made;
}
const session = (properties, originalMaxAge) => ({ cookie: { originalMaxAge }, ...properties });

points({
  sessions: async () => {
    const made = await store();
    await called(made, "set", "sid-1", session({ user: "größe", cart: [1, 2] }, 60000));
    assert.deepEqual((await called(made, "get", "sid-1"))[0].cart, [1, 2]);
    await called(made, "touch", "sid-1", session({ user: "other" }, 60000));
    assert.equal((await called(made, "get", "sid-1"))[0].user, "other");
    await called(made, "destroy", "sid-1");
    assert.equal((await called(made, "get", "sid-1"))[0], undefined);
  },
  expiry: async () => {
    const made = await store();
    await called(made, "set", "short", session({ user: "a" }, 1));
    await called(made, "set", "long", session({ user: "b" }, 600000));
    // The store looks for expired sessions once a second.
    for (let i = 0; i < 300 && (await called(made, "get", "short"))[0]; i++) await wait(100);
    assert.equal((await called(made, "get", "short"))[0], undefined);
    assert.equal((await called(made, "get", "long"))[0].user, "b");
    assert.deepEqual(problems, []);
  },
});
