// A browser, and the steps of the tests in it.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const axe = require("axe-core");
const puppeteer = require("puppeteer-core");

const writing = process.env.EXPLORER_WRITING;
const reading = process.env.EXPLORER_READING;
/** `http://127.0.0.1:PORT` of the explorer that may write. */
const origin = new URL(writing).origin;
const token = writing.split("#token=")[1];
/** How long something may take that has to come. */
const PATIENCE = Number(process.env.PATIENCE ?? 120_000);

let browser;

async function start() {
  browser = await puppeteer.launch({
    timeout: PATIENCE,
    protocolTimeout: 3 * PATIENCE,
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // A name that leads to this machine, as a name of any site can.
    args: ["--host-resolver-rules=MAP evil.example 127.0.0.1", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])],
  });
}

const stop = () => browser.close();

/** A page in a profile of its own. A fault in it fails the test. */
async function open(address, { width = 1280, height = 800, expected = [] } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.setViewport({ width, height });
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("dialog", (dialog) => {
    page.faults.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/Failed to load resource/.test(text) && !expected.some((one) => one.test(text))) {
      page.faults.push(text);
    }
  });
  waitForViews(page);
  if (address) await page.goto(address);
  return page;
}

/** Lets `goto` wait for the view of the new address: in the explorer itself it would return while the old view is there. */
function waitForViews(page) {
  const goto = page.goto.bind(page);
  page.goto = async (...address) => {
    await page.$$eval("#view > *", (views) => views.forEach((view) => { view.dataset.old = ""; }));
    const response = await goto(...address);
    await page.waitForFunction(() => !document.querySelector("#view > :first-child[data-old]"));
    return response;
  };
}

async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.browserContext().close();
}

/** The address of a place, for a page that has the token. */
const at = (place, base = writing) => `${base}&${new URLSearchParams({ account: "devstoreaccount1", ...place })}`;

/** Runs SQL in the database of the account. */
function sql(text, ...options) {
  return execFileSync("psql", ["-XqAt", "-v", "ON_ERROR_STOP=1", ...options, "-c", "SET search_path = table_service", "-c", text], { encoding: "utf8" }).trim();
}

/** A table of a test, with entities. */
function table(name, entities = []) {
  sql(`SELECT create_table('${name}')`);
  for (const [partitionKey, rowKey, properties] of entities) {
    const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
    sql(`SELECT insert_entity('${name}', ${quoted(partitionKey)}, ${quoted(rowKey)}, ${quoted(JSON.stringify(properties))})`);
  }
  return name;
}

const employees = [
  ["Marketing", "00001", { Name: "Don Hall", Age: 34, Salary: 5000.5 }],
  ["Marketing", "00002", { Name: "Jun Cao", Age: 47 }],
  ["Sales", "00010", { Name: "Ken Kwok", Age: 23, "Id@odata.type": "Edm.Int64", Id: "9007199254740993" }],
];

/** The element with this accessible name, among those that match. */
const named = (page, selector, name) =>
  page.waitForFunction(
    (selector, name) =>
      [...document.querySelectorAll(selector)].find(
        (one) => one.checkVisibility() && (one.getAttribute("aria-label") ?? one.textContent).trim() === name && !one.disabled
          && one.getAttribute("aria-busy") !== "true" && !one.closest("[inert]"),
      ),
    {},
    selector,
    name,
  );

const press = async (page, name) => {
  const found = await named(page, "button, a", name);
  await found.evaluate((one) => one.click());
};

/** Sends the form in the panel. While it is being sent, it takes no other click. */
const submit = (page) => page.waitForFunction(() => {
  const button = document.querySelector("#panel form:not([aria-busy]) button.primary:not(:disabled)");
  button?.click();
  return Boolean(button);
});

/** Saves the entity in the panel: the button says how many changes that are. */
const save = async (page) => {
  const found = await page.waitForFunction(() => [...document.querySelectorAll("#panel button.primary, dialog button.primary")]
    .find((one) => one.textContent.startsWith("Save") && !one.disabled && !one.closest("form[aria-busy]")));
  await found.evaluate((one) => one.click());
};

/** Chooses in the menu of the table. */
async function choose(page, name) {
  await press(page, "More actions");
  await press(page, name);
}

/** Chooses an item that opens a form in the panel, and waits for this form: another one may be open until it comes. */
async function chooseForm(page, name) {
  await page.$$eval("#panel form", (forms) => forms.forEach((form) => { form.dataset.old = ""; }));
  await choose(page, name);
  await page.waitForSelector("#panel form:not([data-old])");
}

/** Whether a button or a link with this name can be seen. */
const visible = (page, name) => page.evaluate((name) => [...document.querySelectorAll("button, a, input")]
  .some((one) => one.checkVisibility() && (one.getAttribute("aria-label") ?? one.textContent).trim() === name), name);

/** Ticks or unticks a column in the open choice of columns. */
const tickColumn = (page, name) => page.$eval(`.column-choice [data-name="${name}"] input`, (one) => one.click());

/** The field with this label. */
const field = (page, label) =>
  page.waitForFunction(
    (label) =>
      [...document.querySelectorAll("input, textarea, select")].find(
        (one) =>
          one.checkVisibility() &&
          (one.getAttribute("aria-label") ?? one.closest("label")?.querySelector("span")?.textContent ?? "") === label,
      ),
    {},
    label,
  );

async function fill(page, label, text) {
  const found = await field(page, label);
  await found.evaluate((one, text) => {
    one.value = text;
    one.dispatchEvent(new Event("input", { bubbles: true }));
    one.dispatchEvent(new Event("change", { bubbles: true }));
  }, text);
}

/** Waits until the page, or a part of it, says something. */
async function says(page, text, selector = "body") {
  try {
    await page.waitForFunction(
      (text, selector) => [...document.querySelectorAll(selector)].some((one) => one.innerText.includes(text)),
      {},
      text,
      selector,
    );
  } catch {
    assert.fail(`The page does not say ${text}, but: ${await page.evaluate(() => document.body.innerText.slice(0, 2000))}`);
  }
}

/** Waits until an element that matches has the focus: it may come after a call to the server. */
async function focused(page, selector) {
  try {
    await page.waitForFunction((selector) => document.activeElement.matches(selector), {}, selector);
  } catch {
    assert.fail(`Not ${selector} has the focus, but ${await page.evaluate(() => document.activeElement.outerHTML.slice(0, 200))}`);
  }
}

/** The texts of the grid: the head, then the rows. */
const grid = (page) =>
  page.$$eval("main .grid tr", (rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())));

async function accessible(page, what) {
  // The policy of the page forbids a script element, and evaluating is not a script element.
  await page.evaluate(axe.source);
  // The colours of a transition are those of no state.
  await page.evaluate(() => {
    const transitions = document.getAnimations().filter((one) => one instanceof CSSTransition);
    return Promise.allSettled(transitions.map((one) => one.finished));
  });
  const { violations } = await page.evaluate(() => window.axe.run());
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join("\n  ")}`);
  assert.deepEqual(found, [], what);
}

/** A call without a browser. */
async function call(name, parameters, headers = {}) {
  const response = await fetch(`${origin}/explorer/api/devstoreaccount1/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}`, ...headers },
    body: JSON.stringify(parameters),
  });
  return { status: response.status, body: await response.json() };
}

/**
 * Holds back calls of a page: `held(name)` waits for a call with this name, and with this body if it is given. It gives
 * a function that lets the call through. All others pass.
 */
async function holding(page) {
  const waiting = [];
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const name = new URL(request.url()).pathname.replace(/^\/explorer\/api(\/[^/]*\/)?/, "");
    const index = waiting.findIndex((one) => one.name === name && (request.postData() ?? "").includes(one.body));
    if (index < 0) request.continue();
    // One that was aborted meanwhile cannot go on.
    else waiting.splice(index, 1)[0].found(() => request.continue().catch(() => {}));
  });
  return (name, body = "") => new Promise((found) => { waiting.push({ name, body, found }); });
}

/** Imports a file into the table that a page shows. */
async function importFile(page, name, text, mode = "insert") {
  await chooseForm(page, "Import");
  const input = await field(page, "File");
  await input.uploadFile(file(name, text));
  await fill(page, "If an entity exists", mode);
  await page.$eval("#panel form button.primary", (one) => one.click());
}

/** The paths of the files that the page names. */
async function files() {
  const page = await (await fetch(`${origin}/explorer`)).text();
  return [...page.matchAll(/(?:href|src)="(\/explorer\/[^"]+)"/g)].map(([, path]) => path);
}

/** Calls a function with a module of the page. */
async function withModule(page, name, action) {
  const path = (await files()).find((one) => one.endsWith("/main.js")).replace("main.js", name);
  return page.evaluate(`import("${path}").then(${action})`);
}

/** A file that a page can import. */
function file(name, text) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "explorer-"));
  const made = path.join(directory, name);
  fs.writeFileSync(made, text);
  return made;
}

module.exports = {
  PATIENCE, accessible, at, call, choose, chooseForm, close, employees, field, file, files, fill, focused, grid, holding, importFile, named, open, origin, press, reading, save, submit, says, sql, start, stop,
  table, tickColumn, token, visible, withModule, writing,
};
