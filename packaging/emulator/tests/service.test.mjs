// Tests as users of the npm package write them, for the runner that Node.js brings.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { after, before, beforeEach, test } from "node:test";
import { start } from "table-service-emulator";

const { TableClient, TableServiceClient } = createRequire(import.meta.url)("@azure/data-tables");
const options = { allowInsecureConnection: true };
let emulator;

before(async () => {
  emulator = await start({ port: 0 });
});
beforeEach(() => emulator.reset());
after(() => emulator.stop());

const service = () => TableServiceClient.fromConnectionString(emulator.connectionString, options);
const tables = async () => {
  const names = [];
  for await (const table of service().listTables()) names.push(table.name);
  return names;
};

test("a test begins without tables", async () => {
  assert.deepEqual(await tables(), []);
  await service().createTable("Employees");
  assert.deepEqual(await tables(), ["Employees"]);
});

test("so does the next one, and the SDK's retries survive a bad day", async () => {
  await service().createTable("Employees");
  const employees = TableClient.fromConnectionString(emulator.connectionString, "Employees", options);
  await emulator.faults({ inject: "503=1%,timeout=1%,reset=1%", seed: 7 });
  for (let number = 0; number < 100; number++) {
    await employees.upsertEntity({ partitionKey: "p", rowKey: String(number), number });
  }
  await emulator.faults();
  let count = 0;
  for await (const _ of employees.listEntities()) count++;
  assert.equal(count, 100);
});

test("two run at a time, and what is wrong is said", async () => {
  const other = await start({ port: 0 });
  assert.notEqual(other.connectionString, emulator.connectionString);
  await other.stop();
  await assert.rejects(start({ port: 0, inject: "nonsense" }), /is no name with a value/);
  await assert.rejects(start({ port: 0, nonsense: 1 }), /unexpected argument '--nonsense'/);
  await assert.rejects(start({ port: 0, seed: -1 }), /'-1' for '--seed/);
});

test("what a program does after a Ctrl-C has its emulator", async () => {
  const program = `
    import { start } from "table-service-emulator";
    const emulator = await start({ port: 0, explorer: "off", data: null });
    const works = setInterval(() => {}, 1000); // the emulator does not keep the program alive
    process.once("SIGINT", () => {
      clearInterval(works);
      emulator.reset().then(() => emulator.stop()).then(() => console.log("in peace"));
    });
    console.log("ready");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
    cwd: import.meta.dirname,
  });
  let said = "";
  const ended = new Promise((resolve) => child.once("close", resolve));
  child.stdout.on("data", (text) => {
    if (!said) process.kill(-child.pid, "SIGINT");
    said += text;
  });
  assert.equal(await ended, 0);
  assert.equal(said, "ready\nin peace\n");
});

test("a program that forgets stop() ends", async () => {
  const program = `
    import { start } from "table-service-emulator";
    const emulator = await start({ port: 0 });
    await emulator.reset();
    console.log("done");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["ignore", "inherit", "inherit"],
    cwd: import.meta.dirname,
    // Then it hangs.
    timeout: 60_000,
  });
  assert.equal(await new Promise((resolve) => child.once("close", resolve)), 0);
});

test("it ends when its program is killed", async () => {
  const program = `import("table-service-emulator").then(({ start }) => start({ port: 0 })).then((e) => console.log(e.adminUrl));
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--eval", program], { stdio: ["ignore", "pipe", "inherit"], cwd: import.meta.dirname });
  const url = await new Promise((resolve) => child.stdout.once("data", (text) => resolve(String(text).trim())));
  assert.equal((await fetch(`${url}/live`)).status, 200);
  child.kill("SIGKILL");
  for (;;) {
    const lives = await fetch(`${url}/live`).then(() => true, () => false);
    if (!lives) break;
  }
});
