"use strict";
// Starts the emulator from Node.js. index.d.ts describes its functions.

const { spawn } = require("node:child_process");
const path = require("node:path");

const PROGRAM = path.join(__dirname, "bin", "table-service-emulator");
const READY = /on http:\/\/(\S+)\.\nConnection string: (.*)\n/;
// Most characters of its errors that are kept for a message.
const ERRORS = 64 * 1024;

/** The command says which options it does not have. */
function argumentsOf(options) {
  // Its output is read here.
  const { quiet: _, ...wanted } = { adminPort: 0, parent: process.pid, ...options };
  return Object.entries(wanted)
    .filter(([, value]) => value !== undefined && value !== null && value !== false)
    .map(([name, value]) => {
      const option = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
      return value === true ? option : `${option}=${value}`;
    });
}

/** The environment without the variable that hides the lines that `start` waits for. */
function environment() {
  const { TABLE_SERVICE_EMULATOR_QUIET: _, ...others } = process.env;
  return others;
}

function start(options = {}) {
  // In a session of its own no Ctrl-C reaches it: the last work of this process may need it.
  const child = spawn(PROGRAM, argumentsOf(options), { detached: true, env: environment(), stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => {
    child.once("exit", resolve);
    child.once("error", resolve);
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    errors = (errors + text).slice(-ERRORS);
  });
  return new Promise((resolve, reject) => {
    let output = "";
    child.once("error", (error) => reject(new Error(`${PROGRAM} does not run: ${error.message}`)));
    child.once("close", () => reject(new Error(`the emulator does not start: ${errors.trim()}`)));
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output += text;
      const ready = READY.exec(output);
      if (ready) resolve(running(child, ended, `http://${ready[1]}`, ready[2]));
    });
  });
}

function running(child, ended, adminUrl, connectionString) {
  async function post(where, body) {
    const answer = await fetch(`${adminUrl}${where}`, { method: "POST", body });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text.trim());
  }
  // A program that forgets stop() ends all the same, and the emulator with it.
  for (const one of [child, child.stdout, child.stderr]) one.unref();
  return {
    connectionString,
    adminUrl,
    reset: () => post("/reset"),
    faults: (faults) => post("/faults", JSON.stringify(faults ?? {})),
    async stop() {
      // The end is waited for.
      child.ref();
      child.kill("SIGTERM");
      await ended;
    },
  };
}

module.exports = { start };
