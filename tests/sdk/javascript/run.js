// Runs the tests of the SDK for JavaScript, then sees that every public method of its clients was called.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const { test } = require("node:test");
const { TableClient, TableServiceClient, TableTransaction } = require("@azure/data-tables");

const wanted = process.argv.slice(2);
const files = fs.readdirSync(__dirname).filter((file) => file.endsWith(".test.js"));
const chosen = files.filter((file) => !wanted.length || wanted.some((name) => file === `${name}.test.js`));
assert.ok(chosen.length, `the tests are: ${files.map((file) => file.replace(".test.js", "")).join(" ")}`);
for (const file of chosen) require(`./${file}`);

// Methods that are private in TypeScript, and that JavaScript does not hide.
const PRIVATE = /^(_.*|list(Entities|Tables)(All|Page))$/;

if (!wanted.length) {
  test("every public method was called", () => {
    const { calls } = require("./support.js");
    for (const cls of [TableServiceClient, TableClient, TableTransaction]) {
      const methods = [...Object.getOwnPropertyNames(cls.prototype), ...Object.getOwnPropertyNames(cls).filter((name) => typeof cls[name] === "function")];
      const open = methods.filter((name) => name !== "constructor" && !PRIVATE.test(name));
      assert.ok(open.length >= 4, cls.name);
      assert.deepEqual(open.filter((name) => !calls.has(`${cls.name}.${name}`)), [], cls.name);
    }
  });
}
