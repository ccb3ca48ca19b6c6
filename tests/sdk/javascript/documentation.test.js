"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { CONNECTION_STRING, names, serviceClient } = require("./support.js");

test("the program that the documentation shows", async () => {
  const page = fs.readFileSync(path.join(__dirname, "../../../docs/guide/gateway.md"), "utf8");
  const programs = [...page.matchAll(/^```javascript\n(.*?)^```$/gms)];
  assert.equal(programs.length, 1);
  names.push("Employees");
  await serviceClient().createTable("Employees");
  const program = `const connection = ${JSON.stringify(CONNECTION_STRING)};\n${programs[0][1]}`;
  assert.equal(execFileSync(process.execPath, ["-e", program], { encoding: "utf8" }), "Don\n");
});
