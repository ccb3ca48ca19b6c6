// Test set-ups as people have them for azurite-table, with the command changed: npm scripts, a task of an editor, steps of CI. The one of
// containers and compose files is in tests/packages/images.sh.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import readline from "node:readline";
import { afterEach, test } from "node:test";

/** Whether an emulator runs, or cleans up: until it has ended, no other one may use its tables. */
function emulatorRuns() {
  const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return processes.some((process) => {
    try {
      // The command line of a process that has ended is empty.
      return readFileSync(`/proc/${process}/cmdline`, "utf8").includes("table-service-emulator");
    } catch {
      return false; // It has ended.
    }
  });
}

/** Runs a command, and returns what it prints. */
function run(command, ...options) {
  const { status, stdout, stderr } = spawnSync(command, options, { encoding: "utf8" });
  assert.equal(status, 0, `${command} ${options}: ${stdout}${stderr}`);
  return stdout;
}

// A set-up that has ended leaves no emulator.
afterEach(async () => {
  for (const end = Date.now() + 60_000; emulatorRuns(); ) {
    assert.ok(Date.now() < end, "the emulator goes on");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});

for (const script of ["start-server-and-test", "concurrently"]) {
  test(`npm scripts with ${script}`, () => {
    assert.match(run("npm", "run", `test:${script}`), /number 7/);
  });
}

test("a task of an editor, which waits for two lines", async () => {
  const [task] = JSON.parse(readFileSync("tasks.json", "utf8")).tasks;
  const { beginsPattern, endsPattern } = task.problemMatcher.background;
  // Editors know the programs of all users; here it is installed for the project.
  const env = { ...process.env, PATH: `${process.cwd()}/node_modules/.bin:${process.env.PATH}` };
  const child = spawn("bash", ["-c", task.command], { detached: true, stdio: ["ignore", "pipe", "inherit"], env });
  const ended = once(child, "exit");
  let begins = false;
  let ends = false;
  for await (const line of readline.createInterface({ input: child.stdout })) {
    begins ||= new RegExp(beginsPattern).test(line);
    ends = begins && new RegExp(endsPattern).test(line);
    if (ends) break;
  }
  assert.ok(ends);
  assert.match(run("node", "program.cjs"), /number 7/);
  // Its terminal is closed.
  process.kill(-child.pid, "SIGTERM");
  await ended;
});

test("steps of CI", async () => {
  const steps = readFileSync("workflow.yml", "utf8").matchAll(/- run: (.*)/g);
  const groups = [];
  let said = "";
  try {
    for (const [, command] of steps) {
      // Like a runner: each step has a shell, and its background processes go on until the end of the job.
      const shell = spawn("bash", ["-e", "-c", command], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
      shell.stdout.on("data", (text) => (said += text));
      groups.push(shell.pid);
      const [status] = await once(shell, "exit");
      assert.equal(status, 0, command);
    }
  } finally {
    for (const group of groups) {
      try {
        process.kill(-group, "SIGTERM");
      } catch (error) {
        assert.equal(error.code, "ESRCH");
      }
    }
  }
  assert.match(said, /number 7/);
});
