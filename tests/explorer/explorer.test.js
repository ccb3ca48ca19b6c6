// The explorer as people use it, and as others try to.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");
const { after, before, test } = require("node:test");
const {
  PATIENCE, accessible, at, call, choose, chooseForm, close, employees, field, file, files, fill, focused, grid, holding, importFile, named, open, origin, press, reading, save, submit, says, sql, start, stop,
  table, tickColumn, token, visible, withModule, writing,
} = require("./support.js");

before(start);
after(stop);

// --- Views of the data --------------------------------------------------------------------------------------------------------

test("the token leaves the address at once, is kept for the origin, and no cookie is made", async () => {
  const page = await open(writing);
  await says(page, "Connect a program");
  assert.ok(!page.url().includes("token"), page.url());
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.equal(await page.evaluate(() => Object.values(localStorage).join()), token);
  // So a second page of the origin needs no token in its address.
  await page.goto("about:blank");
  await page.goto(`${origin}/explorer`);
  await says(page, "Connect a program");
  // The history has no token either.
  await page.goBack();
  await page.goForward();
  assert.ok(!page.url().includes("token"), page.url());
  await close(page);
});

test("tables have estimated counts and sizes, and can be searched", async () => {
  table("Estimated", employees);
  sql('ANALYZE table_service_data."Estimated"');
  const page = await open(at({}));
  await says(page, "≈ 3 ·", "#tables");
  await fill(page, "Find a table", "estim");
  const visible = await page.$$eval("#tables li", (items) => items.filter((item) => item.checkVisibility()).map((item) => item.innerText));
  assert.equal(visible.length, 1);
  assert.match(visible[0], /^Estimated\s+≈ 3 · [0-9.]+ kB$/);
  await close(page);
});

test("entities are a grid in the order of keys, with columns and types", async () => {
  const page = await open(at({ table: table("Grid", employees) }));
  await says(page, "3 entities.", ".pages");
  const [head, ...rows] = await grid(page);
  assert.deepEqual(head.map((text) => text.replace(/\s+/g, " ")), [
    "", "PartitionKey", "RowKey", "Age Int32", "Name String", "Salary Double", "Id Int64", "Timestamp",
  ]);
  assert.deepEqual(rows.map((row) => row.slice(1, -1)), [
    ["Marketing", "00001", "34", "Don Hall", "5000.5", ""],
    ["Marketing", "00002", "47", "Jun Cao", "", ""],
    ["Sales", "00010", "23", "Ken Kwok", "", "9007199254740993"],
  ]);
  await close(page);
});

test("a filter is explained while one types, and its address can be sent", async () => {
  const page = await open(at({ table: table("Filtered", employees) }));
  await says(page, "3 entities.", ".pages");
  // There is nothing to say of a table as it is.
  assert.equal(await page.$eval("#explanation", (one) => one.checkVisibility()), false);
  await fill(page, "Filter", "Age gt 20");
  await says(page, "table scan", "#explanation");
  await fill(page, "Filter", "");
  await page.waitForFunction(() => !document.querySelector("#explanation").checkVisibility());
  await page.keyboard.press("/");
  await page.keyboard.type("PartitionKey eq 'Sales' and Age gt 20");
  await says(page, "row range scan", "#explanation");
  await says(page, "tested on each row: Age gt 20", "#explanation");
  assert.ok(!page.url().includes("filter"), "it does not run before it is asked for");
  await page.keyboard.press("Enter");
  await says(page, "1 entity", ".pages");
  await press(page, "Columns");
  for (const other of ["Age", "Id"]) await tickColumn(page, other);
  assert.match(page.url(), /select=Name/);
  await page.keyboard.press("Escape");
  const address = page.url();
  await close(page);
  const colleague = await open(writing);
  await says(colleague, "Connect a program");
  await colleague.goto(address);
  await says(colleague, "1 entity", ".pages");
  assert.equal((await grid(colleague))[1][3], "Ken Kwok");
  await fill(colleague, "Filter", "Age gt");
  await says(colleague, "InvalidInput", "#explanation .problem");
  await close(colleague);
});

test("pages follow each other, and one can go back", async () => {
  sql("SELECT create_table('Paged'); SELECT insert_entity('Paged', 'p', to_char(i, 'FM0000'), '{}') FROM generate_series(1, 250) AS i");
  const page = await open(at({ table: "Paged" }));
  await says(page, "100 entities, and there are more.", ".pages");
  await press(page, "Next page");
  await says(page, "0101");
  assert.match(page.url(), /position=/);
  await page.reload();
  await says(page, "0101");
  await press(page, "Next page");
  await says(page, "50 entities.", ".pages");
  await press(page, "Back");
  await says(page, "0101");
  await press(page, "First page");
  await says(page, "0001");
  await choose(page, "Count exactly");
  await says(page, "250 entities.", "#status");
  await close(page);
});

test("an account is chosen on top, and one whose database is away says so", async () => {
  const page = await open(writing);
  await says(page, "Connect a program");
  await page.select("#account", "second");
  await says(page, "Elsewhere", "#tables");
  await page.select("#account", "gone");
  await says(page, "ServerBusy", ".problem");
  await says(page, "The database cannot be reached", ".problem");
  await page.select("#account", "second");
  await says(page, "Elsewhere", "#tables");
  await close(page);
});

test("an answer that comes late does not replace what was asked for later", async () => {
  const name = table("Late", employees);
  const other = table("Later", [["p", "1", { A: 1 }]]);
  const settled = async (page) => {
    await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 300); }));
  };

  // The first view, while the accounts or the tables are not known yet.
  for (const first of ["", "query_tables"]) {
    const page = await open();
    const hold = await holding(page);
    const held = hold(first);
    await page.goto(writing);
    const release = await held;
    await press(page, "Load");
    if (first) await says(page, "Requests a second", "#view");
    release();
    await says(page, "Requests a second", "#view");
    await says(page, "Tables", "#tables h2");
    await settled(page);
    await says(page, "Requests a second", "#view");
    assert.equal(await page.$eval("#title", (one) => one.textContent), "Load");
    await close(page);
  }

  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const hold = await holding(page);
  const late = async (held, act, then) => {
    await act();
    const release = await held;
    await then();
    release();
    await settled(page);
  };
  // A table.
  await late(hold("query_page", "Later"), () => page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}`; }, other), async () => {
    await page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}`; }, name);
    await says(page, "3 entities.", ".pages");
  });
  assert.equal((await grid(page)).length, 4);
  // The meaning of a filter.
  await late(hold("explain_query", "Age gt 1"), () => fill(page, "Filter", "Age gt 1"), async () => {
    await fill(page, "Filter", "Age gt 20");
    await says(page, "Age gt 20", "#explanation");
  });
  await says(page, "Age gt 20", "#explanation");
  // An entity.
  await late(hold("get_entity", "Marketing"), () => press(page, "Open Marketing 00001"), async () => {
    await press(page, "Open Sales 00010");
    await field(page, "Value of Id");
  });
  assert.equal(await (await field(page, "PartitionKey")).evaluate((one) => one.value), "Sales");
  // The result of a save in a panel that another one has replaced.
  await fill(page, "Value of Name", "slow");
  await late(hold("replace_entity"), () => save(page), async () => {
    await press(page, "Open Marketing 00002");
    await says(page, "ETag", "#panel");
    await page.waitForFunction(() => document.querySelector("#panel textarea").value === "Marketing");
  });
  assert.equal(await page.$eval("#panel", (one) => one.hidden), false, "the panel that was opened later stays");
  // Tables of another account.
  await late(hold("query_tables"), () => page.select("#account", "second"), async () => {
    await page.select("#account", "devstoreaccount1");
    await says(page, name, "#tables");
  });
  await says(page, name, "#tables");
  assert.ok(!(await page.$eval("#tables", (one) => one.innerText)).includes("Elsewhere"));
  await close(page);
});

test("a change that fails after something else was asked for is told, and one that waits is not lost", async () => {
  const name = table("Unseen", employees);
  const other = table("Elsewhere1", [["p", "1", { A: 1 }]]);
  const page = await open(at({ table: name }));
  const hold = await holding(page);
  const begin = async (label, text) => {
    await page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}`; }, name);
    await press(page, "Open Marketing 00001");
    await page.waitForFunction(() => document.querySelector("#panel textarea")?.value === "Marketing");
    await fill(page, label, text);
    const held = hold("replace_entity");
    await save(page);
    return held;
  };
  // Another entity was opened.
  let release = await begin("Value of Age", "40");
  sql(`SELECT merge_entity('${name}', 'Marketing', '00001', '{"Age": 36}', '*')`);
  await press(page, "Open Sales 00010");
  await field(page, "Value of Id");
  release();
  await says(page, "UpdateConditionNotSatisfied", "#panel .problem");
  await says(page, `the answer to an earlier change: replace_entity · ${name} · Marketing · 00001`, "#panel .problem");
  // Another table was opened, and another one was faster.
  release = await begin("Value of Age", "35");
  sql(`SELECT merge_entity('${name}', 'Marketing', '00001', '{"Age": 36}', '*')`);
  await page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}`; }, other);
  await named(page, "button", "Open p 1");
  release();
  await says(page, "UpdateConditionNotSatisfied", "#view .problem");
  await says(page, "the answer to an earlier change", "#view .problem");
  // It is executed, even if it was not sent yet.
  release = await begin("Value of Age", "37");
  await page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}`; }, other);
  await named(page, "button", "Open p 1");
  const [answer] = await Promise.all([page.waitForResponse((one) => one.url().endsWith("/replace_entity")), release()]);
  assert.equal(answer.status(), 200);
  assert.equal(sql(`SELECT properties ->> 'Age' FROM get_entity('${name}', 'Marketing', '00001')`), "37");
  await close(page);
});

test("an address of an account that is not here shows no other one, and a new token lists the tables anew", async () => {
  const name = table("Own", employees);
  const page = await open(at({ account: "production", table: name }));
  await says(page, "There is no account production here.", "#view .problem");
  assert.equal(await page.$("#tables li"), null);
  assert.equal(await page.$("main .grid"), null);
  await page.select("#account", "second");
  await says(page, "Elsewhere", "#tables");
  assert.equal(await page.$(".problem"), null);
  await page.evaluate((address) => { location.hash = new URL(address).hash; }, at({ table: name }));
  await says(page, "3 entities.", ".pages");
  await says(page, name, "#tables");
  const later = table("Later1");
  assert.ok(!(await page.$eval("#tables", (one) => one.innerText)).includes(later));
  await page.evaluate((address) => { location.hash = new URL(address).hash; }, at({ table: name }));
  await says(page, later, "#tables");
  await close(page);
});

test("a database that dies and comes back is told, and the page goes on without being loaded again", async () => {
  const name = table("Outlived", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  await press(page, "Open Sales 00010");
  await fill(page, "Value of Name", "later");
  const server = (command) => execFileSync("pgrx-config/cluster.sh", [command, process.env.EXPLORER_CLUSTER], { stdio: "pipe" });
  server("crash");
  try {
    await save(page);
    await says(page, "The database cannot be reached", "#panel .problem");
    await press(page, "Close");
    await press(page, "Discard");
    await choose(page, "Count exactly");
    await says(page, "ServerBusy", "#view .problem");
    assert.equal((await grid(page)).length, 4, "what was read stays");
    await press(page, "Open Marketing 00001");
    await says(page, "ServerBusy", "#view .problem");
    await page.reload();
    await says(page, "ServerBusy", "#view .problem");
    await says(page, "ServerBusy", "#tables .problem");
    await accessible(page, "an outage");
  } finally {
    server("again");
  }
  await press(page, "Try again");
  await says(page, "3 entities.", ".pages");
  await page.waitForFunction(() => !document.querySelector(".problem"));
  await says(page, name, "#tables");
  await press(page, "Open Sales 00010");
  await fill(page, "Value of Name", "later");
  await save(page);
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties ->> 'Name' FROM get_entity('${name}', 'Sales', '00010')`), "later");
  await close(page);
});

// --- Edits --------------------------------------------------------------------------------------------------------------------

test("insert, edit as form and as JSON, duplicate, change keys, delete", async () => {
  const name = table("Edited");
  const page = await open(at({ table: name }));
  await says(page, "No entities.");
  await press(page, "Insert");
  await fill(page, "PartitionKey", "p");
  await fill(page, "RowKey", "1");
  for (const [property, type, value] of [["Price", "Double", "3"], ["Count", "Int64", "9007199254740993"], ["Ok", "Boolean", "true"]]) {
    await press(page, "Add a property");
    await page.$$eval(".property", (rows, given) => {
      const [name, type, value] = rows.at(-1).querySelectorAll("input, select, textarea");
      [name.value, type.value, value.value] = given;
    }, [property, `Edm.${type}`, value]);
  }
  // A property that the service would ignore is not lost without a word.
  await press(page, "Add a property");
  for (const ignored of ["Timestamp", "PartitionKey", "Note@odata.type"]) {
    await page.$$eval(".property", (rows, name) => { rows.at(-1).querySelector("input").value = name; }, ignored);
    await submit(page);
    await says(page, `A property cannot have the name ${ignored}.`, "#panel .fault");
  }
  await page.$$eval(".property", (rows) => rows.at(-1).querySelector("[aria-label^=Remove]").click());
  await submit(page);
  await says(page, "9007199254740993", "main");
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'p', '1')`),
    '{"Count@odata.type":"Edm.Int64","Count":"9007199254740993","Ok":true,"Price":3.0}');

  await press(page, "Open p 1");
  await press(page, "As JSON");
  await page.waitForFunction(() => document.querySelector("#panel [aria-label='Properties as JSON']")?.checkVisibility());
  const json = await field(page, "Properties as JSON");
  assert.match(await json.evaluate((one) => one.value), /"Price":3\.0/);
  await fill(page, "Properties as JSON", '{"Price":4.0,"Note":"a\\nb"}');
  await press(page, "As JSON");
  const value = await field(page, "Value of Note");
  assert.equal(await value.evaluate((one) => one.value), "a\nb");
  await save(page);
  await page.waitForFunction(() => document.getElementById("panel").hidden);
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'p', '1')`), '{"Note":"a\\nb","Price":4.0}');

  await press(page, "Open p 1");
  await press(page, "Duplicate");
  await says(page, "give it other keys", "#panel");
  await submit(page);
  await says(page, "EntityAlreadyExists", "#panel .problem");
  await fill(page, "RowKey", "2");
  await submit(page);
  await named(page, "button", "Open p 2");

  await press(page, "Open p 2");
  await press(page, "Change keys");
  await says(page, "One transaction", "#panel");
  await fill(page, "PartitionKey", "q");
  await submit(page);
  await named(page, "button", "Open q 2");
  assert.equal(sql(`SELECT string_agg(partition_key || row_key, ' ') FROM query_entities('${name}')`), "p1 q2");
  // The edited values go along.
  await press(page, "Open q 2");
  await fill(page, "Value of Price", "none");
  await press(page, "Change keys");
  await says(page, 'The value of "Price" is no Edm.Double.', "#panel .fault");
  await fill(page, "Value of Price", "5");
  await press(page, "Change keys");
  await says(page, "One transaction", "#panel");
  await fill(page, "RowKey", "3");
  await submit(page);
  await press(page, "Open q 3");
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'q', '3')`), '{"Note":"a\\nb","Price":5.0}');
  await press(page, "Change keys");
  await says(page, "One transaction", "#panel");
  await fill(page, "RowKey", "2");
  await submit(page);

  await press(page, "Open q 2");
  await press(page, "Delete");
  await press(page, "Keep it");
  await press(page, "Open q 2");
  await press(page, "Delete");
  await press(page, "Delete it");
  await says(page, "Deleted.", "#status");
  assert.equal(sql(`SELECT string_agg(partition_key || row_key, ' ') FROM query_entities('${name}')`), "p1");
  await close(page);
});

test("ends of lines stay as they are, in the form, as JSON, in a duplicate and in a conflict", async () => {
  const texts = { Mixed: "a\r\nb\rc\nd\r\n", Windows: "a\r\nb", Mac: "\ra\r" };
  const name = table("Ends", [["p", "1", { ...texts, Other: "x" }]]);
  const stored = (rowKey) => JSON.parse(sql(`SELECT properties FROM get_entity('${name}', 'p', '${rowKey}')`));
  const saved = (page) => page.waitForFunction(() => document.getElementById("panel").hidden);
  const page = await open(at({ table: name }));

  await press(page, "Open p 1");
  await fill(page, "Value of Other", "y");
  await submit(page);
  await saved(page);
  assert.deepEqual(stored("1"), { ...texts, Other: "y" });

  await press(page, "Open p 1");
  await press(page, "As JSON");
  await field(page, "Properties as JSON");
  await press(page, "As JSON");
  await field(page, "Value of Mixed");
  await press(page, "Duplicate");
  await says(page, "give it other keys", "#panel");
  await fill(page, "RowKey", "2");
  await submit(page);
  await saved(page);
  assert.deepEqual(stored("2"), { ...texts, Other: "y" });

  await press(page, "Open p 2");
  await fill(page, "Value of Other", "z");
  sql(`SELECT merge_entity('${name}', 'p', '2', '{"Other": "theirs"}', '*')`);
  await submit(page);
  await says(page, "UpdateConditionNotSatisfied", "#panel");
  await press(page, "Edit yours");
  await field(page, "Value of Mixed");
  await submit(page);
  await saved(page);
  assert.deepEqual(stored("2"), { ...texts, Other: "z" });

  // An edited text gets the first of its line ends everywhere.
  await press(page, "Open p 2");
  await fill(page, "Value of Mixed", "a\nb!\nc\nd\n");
  await fill(page, "Value of Windows", "a\nnew\nb");
  await fill(page, "Value of Mac", "");
  await fill(page, "Value of Other", "1\n2");
  await submit(page);
  await saved(page);
  assert.deepEqual(stored("2"), { Mixed: "a\r\nb!\r\nc\r\nd\r\n", Windows: "a\r\nnew\r\nb", Mac: "", Other: "1\n2" });
  await close(page);
});

test("a conflict is decided for each property, and one save keeps all", async () => {
  const before = { Email: "a@x", Mine: 1, Visits: 123, Same: 1, "Count@odata.type": "Edm.Int64", Count: "9007199254740993" };
  const name = table("Conflict", [["p", "1", before]]);
  const stored = () => sql(`SELECT properties FROM get_entity('${name}', 'p', '1')`);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");
  await fill(page, "Value of Email", "mine@x");
  await fill(page, "Value of Mine", "2");
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Email": "theirs@x", "Visits": 777001, "New": true}', '*')`);
  await save(page);
  await says(page, "UpdateConditionNotSatisfied", "#panel");
  const rows = () => page.$$eval("#panel .versions tbody tr", (rows) => rows.map((row) => [row.className, row.innerText.replace(/\s+/g, " ").trim()]));
  assert.deepEqual(await rows(), [
    ["both", "Email both changed it yours mine@x String theirs theirs@x String it was a@x String"],
    ["yours", "Mine 1 Int32 → 2 Int32 yours"],
    ["theirs", "New (absent) → true Boolean theirs"],
    ["theirs", "Visits 123 Int32 → 777001 Int32 theirs"],
  ]);
  await accessible(page, "a conflict");
  // Nobody decides for the user.
  await says(page, "Choose one version first", "#panel button:disabled");
  assert.ok(stored().includes("theirs@x"));
  // "Edit yours" has their values where only they have changed them, and counts your changes.
  await press(page, "Edit yours");
  await says(page, "Save 2 changes", "#panel");
  assert.equal(await (await field(page, "Value of Visits")).evaluate((one) => one.value), "777001");
  // Again somebody is faster.
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Email": "later@x"}', '*')`);
  await save(page);
  await says(page, "later@x", "#panel");
  await page.$$eval("#panel .versions [type=radio]", (all) => all[0].click());
  await says(page, "Save your 2 changes", "#panel");
  await page.$$eval("#panel .versions [type=radio]", (all) => all[1].click());
  await says(page, "Save your change", "#panel");
  // Once more: the ETag is the one of the version that was seen.
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Visits": 777002}', '*')`);
  await save(page);
  await says(page, "777002", "#panel");
  assert.deepEqual((await rows()).map(([side]) => side), ["yours", "theirs"], "what was chosen as theirs is theirs");
  await save(page);
  await says(page, "Saved.", "#status");
  assert.equal(stored(), '{"Count@odata.type":"Edm.Int64","Count":"9007199254740993","Email":"later@x","Mine":2,"New":true,"Same":1,"Visits":777002}');
  await close(page);
});

test("a conflict in which nothing of yours is left speaks only of theirs, and one that keeps theirs writes nothing", async () => {
  const name = table("Agreed", [["p", "1", { Email: "a@x", Visits: 1 }]]);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");
  await fill(page, "Value of Email", "new@x");
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Email": "new@x", "Visits": 2}', '*')`);
  await save(page);
  await says(page, "Nothing that you have changed differs from what is stored now.", "#panel");
  assert.doesNotMatch(await page.$eval("#panel", (one) => one.innerText), /both|yours|Yours/);
  await press(page, "Show what is stored");
  assert.equal(await (await field(page, "Value of Visits")).evaluate((one) => one.value), "2");
  await fill(page, "Value of Email", "mine@x");
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Email": "theirs@x"}', '*')`);
  await save(page);
  await says(page, "Choose what is kept", "#panel");
  const etag = sql(`SELECT etag("timestamp") FROM get_entity('${name}', 'p', '1')`);
  await page.$$eval("#panel .versions [type=radio]", (all) => all[1].click());
  await press(page, "Keep what is stored");
  await says(page, "Nothing was written.", "#status");
  assert.equal(sql(`SELECT etag("timestamp") FROM get_entity('${name}', 'p', '1')`), etag);
  await close(page);
});

test("a delete of many that one has changed deletes none", async () => {
  const name = table("Many", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  await page.click("[aria-label='Select Marketing 00001']");
  await page.click("[aria-label='Select Sales 00010']");
  await says(page, "2 selected", ".selection");
  await press(page, "Delete");
  sql(`SELECT merge_entity('${name}', 'Sales', '00010', '{"Age": 24}', '*')`);
  await press(page, "Delete them");
  await says(page, "UpdateConditionNotSatisfied", "#panel .problem");
  assert.equal(sql(`SELECT count_entities('${name}')`), "3");
  await press(page, "Close");
  await page.reload();
  await page.waitForSelector("[aria-label='Select all']");
  await page.click("[aria-label='Select all']");
  await press(page, "Delete");
  await press(page, "Delete them");
  await says(page, "Deleted 3 entities.", "#status");
  assert.equal(sql(`SELECT count_entities('${name}')`), "0");
  await close(page);
});

test("a delete by filter asks for the number, goes in steps, and leaves the others", async () => {
  table("Swept");
  sql("SELECT count(insert_entity('Swept', 'p', to_char(i, 'FM0000'), format('{\"Old\": %s}', (i <= 2500)::text)::properties)) FROM generate_series(1, 2600) AS i");
  const page = await open(at({ table: "Swept" }));
  await press(page, "More actions");
  await named(page, "button", "Drop table");
  assert.equal(await visible(page, "Delete by filter"), false, "without a filter there is nothing to delete by");
  await page.keyboard.press("Escape");
  await fill(page, "Filter", "Old eq true");
  await press(page, "Run");
  await page.waitForFunction(() => location.hash.includes("Old"));
  await chooseForm(page, "Delete by filter");
  await says(page, "It selects 2,500 entities", "#panel");
  await fill(page, "Number of entities", "25");
  await page.$eval("#panel form button", (one) => one.click());
  await says(page, "That is not their number", "#panel .problem");
  assert.equal(sql("SELECT count_entities('Swept')"), "2600");
  await fill(page, "Number of entities", "2,500");
  await page.$eval("#panel form button", (one) => one.click());
  await says(page, "Deleted 2,500 entities", "#status");
  assert.equal(sql("SELECT count_entities('Swept'), count_entities('Swept', 'Old eq false')"), "100|100");
  await close(page);
});

test("create, clear and drop a table", async () => {
  const page = await open(at({}));
  await press(page, "New table");
  await fill(page, "Name", "1wrong");
  await press(page, "Create table");
  await says(page, "InvalidResourceName", "#panel .problem");
  await fill(page, "Name", "Made");
  await press(page, "Create table");
  await says(page, "No entities.", "main");
  await says(page, "Made", "#tables");
  sql("SELECT insert_entity('Made', 'p', 'r', '{}')");
  await chooseForm(page, "Clear table");
  await fill(page, "Name of the table", "Mad");
  await page.$eval("#panel form button", (one) => one.click());
  await says(page, "That is not the name", "#panel .problem");
  assert.equal(sql("SELECT count_entities('Made')"), "1");
  await fill(page, "Name of the table", "Made");
  await page.$eval("#panel form button", (one) => one.click());
  await says(page, "The table is empty.", "#status");
  assert.equal(sql("SELECT count_entities('Made')"), "0");
  await chooseForm(page, "Drop table");
  await fill(page, "Name of the table", "Made");
  await page.$eval("#panel form button", (one) => one.click());
  await says(page, "Connect a program", "main");
  assert.equal(sql("SELECT count(*) FROM query_tables() WHERE table_name = 'Made'"), "0");
  await close(page);
});

/** The database of the account, for the copy program. */
const database = `postgresql://${process.env.PGUSER}@${encodeURIComponent(process.env.PGHOST)}:${process.env.PGPORT}/${process.env.PGDATABASE}`;

/** Downloads an export of the page. */
async function exported(page, format, name) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "explorer-"));
  const session = await page.createCDPSession();
  await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: directory, browserContextId: page.browserContext().id });
  await chooseForm(page, "Export");
  await fill(page, "Format", format);
  await page.$eval("#panel form button", (one) => one.click());
  const target = path.join(directory, name);
  for (let waited = 0; !fs.existsSync(target); waited += 50) {
    assert.ok(waited < PATIENCE, "the download does not come");
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  return fs.readFileSync(target, "utf8");
}

test("an export comes back by an import, as JSON lines and as CSV, with every type", async () => {
  const name = table("Exported", [
    ["'a", "-1", {
      S: "SUM(1)\r\n\"quoted\", 'x'", Empty: "", Apostrophe: "'=1", Phone: "+49 (0)89 1234", D: -2.5, I: -5, B: false,
      "L@odata.type": "Edm.Int64", L: "-9223372036854775808", "T@odata.type": "Edm.DateTime", T: "2026-01-31T12:00:00.1234567Z",
      "G@odata.type": "Edm.Guid", G: "c9da6455-213d-42c9-9a79-3e9149a57833", "X@odata.type": "Edm.Binary", X: "AAEC",
      "N@odata.type": "Edm.Double", N: "-Infinity",
    }],
    ["p", "🎉 %2F 'q' \u05d0\u202e", { S: "plain" }],
  ]);
  sql(`SELECT count(insert_entity('${name}', 'r', to_char(i, 'FM0000'), '{"S": "more"}')) FROM generate_series(1, 1500) AS i`);
  table("Lines");
  table("Cells");
  const same = (other) => sql(`SELECT count(*) FROM query_entities('${name}') AS a JOIN query_entities('${other}') AS b
    ON a.partition_key = b.partition_key AND a.row_key = b.row_key AND a.properties = b.properties`);
  const page = await open(at({ table: name }));
  const lines = await exported(page, "jsonl", "Exported.jsonl");
  const csv = await exported(page, "csv", "Exported.csv");
  assert.equal(lines.trim().split("\n").length, 1502);

  await page.goto(at({ table: "Lines" }));
  await says(page, "0 entities.", ".pages");
  await importFile(page, "x.jsonl", lines);
  await says(page, "Imported 1,502 entities", "#status");
  assert.equal(same("Lines"), "1502");
  await page.goto(at({ table: "Cells" }));
  await says(page, "0 entities.", ".pages");
  await importFile(page, "x.csv", csv);
  await says(page, "Imported 1,502 entities", "#status");
  assert.equal(same("Cells"), "1502");

  // The copy program also reads both.
  table("Copied");
  for (const [other, text] of [["x.jsonl", lines], ["x.csv", csv]]) {
    sql("SELECT clear_table('Copied')");
    execFileSync(process.env.EXPLORER_COPY, ["--from", file(other, text), "--to", database, "--table", "Copied"], { stdio: "pipe" });
    assert.equal(same("Copied"), "1502", other);
  }

  // Apostrophes are those of the program that wrote the file, unless the file says otherwise: the explorer of 0.3 did.
  await page.goto(at({ table: table("Foreign") }));
  await says(page, "0 entities.", ".pages");
  await importFile(page, "x.csv", "PartitionKey,RowKey,S,S@type\r\n'=p,r,'=1,Edm.String\r\n");
  await says(page, "Imported 1 entities", "#status");
  assert.equal(sql("SELECT partition_key, properties FROM query_entities('Foreign')"), `'=p|{"S":"'=1"}`);
  await importFile(page, "x.csv", "PartitionKey,RowKey,S,S@type,odata.apostrophes\r\n'=p,s,'x;'=1,Edm.String,\r\n");
  await says(page, "2 entities.", ".pages");
  assert.equal(sql("SELECT partition_key, properties FROM query_entities('Foreign', $$RowKey eq 's'$$)"), `=p|{"S":"'x;=1"}`);
  await close(page);
});

test("an import that cannot go on says what was written; existing entities are kept, replaced or merged as one wants", async () => {
  const name = table("Imported", [["p", "0001", { A: 1 }]]);
  const page = await open(at({ table: name }));
  const entity = (key) => JSON.stringify({ PartitionKey: "p", RowKey: key, B: 2 });
  await importFile(page, "x.jsonl", `${entity("0001")}\n`);
  await says(page, "EntityAlreadyExists", "#panel .problem");
  await says(page, "0 entities were written before. Nothing of the lines 1 to 1 was written.", "#panel .problem");
  await importFile(page, "x.jsonl", entity("0001"), "merge");
  await says(page, "Imported 1 entities", "#status");
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'p', '0001')`), '{"A":1,"B":2}');
  await importFile(page, "x.jsonl", entity("0001"), "replace");
  await page.waitForFunction(() => document.getElementById("panel").hidden);
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'p', '0001')`), '{"B":2}');
  const many = Array.from({ length: 250 }, (_, index) => entity(`1${String(index).padStart(3, "0")}`));
  await importFile(page, "x.jsonl", [...many, "{"].join("\n"));
  await says(page, "200 entities were written before. Nothing of the lines 201 to 251 was written.", "#panel .problem");
  assert.equal(sql(`SELECT count_entities('${name}')`), "201");
  await importFile(page, "x.csv", 'PartitionKey,RowKey\r\np,"open');
  await says(page, "line 2, column 3: the file ends within the field that begins here", "#panel .problem");
  await importFile(page, "x.csv", "PartitionKey,RowKey\r\np\r\n");
  await says(page, "line 2, column 2: The row has 1 fields, but the header 2", "#panel .problem");
  await close(page);
});

test("an import that is stopped says how much was written, and shows it", async () => {
  const name = table("Stopped");
  const other = table("Elsewhere2", employees);
  const text = Array.from({ length: 450 }, (_, index) => JSON.stringify({ PartitionKey: "p", RowKey: String(index) })).join("\n");
  const page = await open(at({ table: name }));
  const hold = await holding(page);
  for (const stop of ["close", "leave"]) {
    await says(page, "No entities.");
    const held = hold("import_entities");
    await importFile(page, "x.jsonl", text);
    const release = await held;
    if (stop === "close") {
      await page.keyboard.press("Escape");
    } else {
      await page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}`; }, other);
      await says(page, "3 entities.", ".pages");
    }
    release();
    await says(page, "Imported 200 entities, then stopped.", "#status");
    assert.equal(sql(`SELECT count_entities('${name}')`), "200");
    await says(page, stop === "close" ? "100 entities, and there are more." : "3 entities.", ".pages");
    sql(`SELECT clear_table('${name}')`);
    await page.evaluate((name) => { location.hash = `account=devstoreaccount1&table=${name}&filter=true`; }, name);
  }
  await close(page);
});

test("CSV is not made of what a spreadsheet would execute", async () => {
  const page = await open(at({ table: table("Formulas", [["p", "r", { S: "x;=HYPERLINK(\"evil\")" }]]) }));
  await chooseForm(page, "Export");
  await fill(page, "Format", "csv");
  await page.$eval("#panel form button", (one) => one.click());
  await says(page, "A spreadsheet would execute S of the entity (\"p\", \"r\") as a formula.", "#panel .problem");
  await says(page, "Export JSON lines.", "#panel .problem");
  await close(page);
});

test("an export that cannot be made says why", async () => {
  const name = table("Refused", employees);
  for (const format of ["jsonl", "csv"]) {
    const page = await open(at({ table: name }));
    await chooseForm(page, "Export");
    await fill(page, "Format", format);
    sql(`SELECT delete_table('${name}')`);
    await page.$eval("#panel form button", (one) => one.click());
    await says(page, "TableNotFound", "#panel .problem");
    await close(page);
    sql(`SELECT create_table('${name}')`);
  }
});

// --- The parts of a table -----------------------------------------------------------------------------------------------------

test("property indexes and expiry are made and dropped", async () => {
  const name = table("Designed", employees);
  const page = await open(at({ table: name, view: "design" }));
  await says(page, "Entities of this table do not expire.");
  await fill(page, "Property", "Age");
  await press(page, "Show the statement for a large table");
  await says(page, "CREATE INDEX CONCURRENTLY", "main pre");
  await press(page, "Create index");
  await press(page, "Drop the index on Age");
  await says(page, "The index on Age is dropped.", "#status");
  await fill(page, "Time to live", "a while");
  await press(page, "Set expiry");
  await says(page, "InvalidInput", ".problem");
  await fill(page, "Time to live", "30 days");
  await press(page, "Set expiry");
  await says(page, "30 days", "main .list");
  await accessible(page, "indexes and expiry");
  assert.equal(sql(`SELECT time_to_live FROM query_expiry('${name}')`), "30 days");
  await press(page, "Drop expiry");
  await says(page, "Entities of this table do not expire.");
  await close(page);
});

test("stored access policies are edited", async () => {
  const name = table("Shared");
  const page = await open(at({ table: name, view: "access" }));
  await press(page, "Add a policy");
  for (const [label, value] of [["Name", "readers"], ["Expiry", "2030-01-31T12:00:00Z"]]) await fill(page, label, value);
  await press(page, "Update");
  await press(page, "Read");
  await press(page, "Save the policies");
  await says(page, "The policies are set.", "#status");
  assert.equal(sql(`SELECT get_access_policies('${name}')`),
    '[{"Id":"readers","Expiry":"2030-01-31T12:00:00.0000000Z","Permission":"ru"}]');
  await named(page, "button", "Remove readers");
  await accessible(page, "access policies");
  await press(page, "Remove readers");
  await press(page, "Save the policies");
  await says(page, "None.", "main");
  assert.equal(sql(`SELECT get_access_policies('${name}')`), "[]");
  await close(page);
});

test("the changes of a feed are shown and stay for its reader", async () => {
  const name = table("Changing");
  sql("SELECT create_change_feed('watched', ARRAY['Changing'])");
  try {
    sql(`SELECT insert_entity('${name}', 'p', '<b>1', '{"A": 1}')`);
    const page = await open(at({ table: name, view: "changes" }));
    await press(page, "Look at the changes of watched");
    await says(page, "<b>1", "main");
    await says(page, "insert", "main");
    // A text that is cut has a sign.
    sql(`SELECT insert_entity('${name}', 'p', '2', '{"A": "${"x".repeat(300)}"}')`);
    await press(page, "Look at the changes of watched");
    await page.waitForFunction(() => [...document.querySelectorAll("main td:last-child")].some((one) => one.innerText.endsWith("xx…")));
    assert.ok(await page.$$eval("main td:last-child", (cells) => cells.some((one) => one.innerText === '{"A":1}')));
    await accessible(page, "changes");
    await close(page);
    assert.equal(sql("SELECT count(*) FROM query_changes('watched')"), "2");
  } finally {
    sql("SELECT drop_change_feed('watched')");
  }
});

test("the readings of the metrics become quantiles and labels", async () => {
  const page = await open(`${origin}/explorer`);
  const found = await withModule(page, "plots.js", ({ quantile, read }) => {
    return [
      quantile([[0.005, 50], [0.01, 98], [Infinity, 100]], 0.5), quantile([[0.005, 50], [0.01, 98], [Infinity, 100]], 0.99),
      quantile([[0.005, 0], [2.5, 7], [Infinity, 7]], 0.99), quantile([], 0.5),
      read('# HELP x\na_b{partition="a\\"b\\\\\\n\u2028}",t="x"} 3\n'),
    ];
  });
  // Within a bucket the requests are spread evenly.
  assert.deepEqual(found, ["5 ms", "> 30 s", "2.48 s", "", [{ name: "a_b", labels: { partition: 'a"b\\\n\u2028}', t: "x" }, value: 3 }]]);
  await close(page);
});

// --- Refusals ----------------------------------------------------------------------------------------------------------------

test("an explorer that only reads shows no buttons, and its database refuses", async () => {
  const name = table("ReadOnly", employees);
  const page = await open(at({ table: name }, reading));
  await says(page, "read only", "#mode");
  await says(page, "3 entities.", ".pages");
  await press(page, "More actions");
  await named(page, "button", "Export");
  for (const text of ["Insert", "Delete by filter", "Import", "Clear table", "Drop table", "New table", "Select all"]) {
    assert.equal(await visible(page, text), false, text);
  }
  await page.keyboard.press("Escape");
  await press(page, "Open Sales 00010");
  const value = await field(page, "Value of Id");
  assert.deepEqual(await value.evaluate((one) => [one.value, one.readOnly]), ["9007199254740993", true]);
  await close(page);
  const [base, secret] = reading.split("/explorer#token=");
  for (const [call, parameters] of [
    ["insert_entity", { table: name, partitionKey: "p", rowKey: "r", properties: "{}" }],
    ["replace_entity", { table: name, partitionKey: "Sales", rowKey: "00010", properties: "{}", etag: "*" }],
    ["rename_entity", { table: name, partitionKey: "Sales", rowKey: "00010", etag: "*", newPartitionKey: "x", newRowKey: "y", properties: "{}" }],
    ["delete_entities_by_key", { table: name, keys: '[["Sales", "00010", "*"]]' }],
    ["delete_entities_step", { table: name, filter: "true", top: 10 }],
    ["import_entities", { table: name, mode: "merge", form: "lines", head: null, part: '{"PartitionKey":"a","RowKey":"b"}\n', line: 1, isLast: true }],
    ["clear_table", { table: name }],
    ["create_table", { table: "Another" }],
    ["delete_table", { table: name }],
    ["create_property_index", { table: name, property: "Age" }],
    ["set_expiry", { table: name, timeToLive: "1 day" }],
    ["set_access_policies", { table: name, policies: "[]" }],
  ]) {
    const response = await fetch(`${base}/explorer/api/devstoreaccount1/${call}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${secret}` },
      body: JSON.stringify(parameters),
    });
    const { error } = await response.json();
    assert.deepEqual([response.status, error.code, error.message], [403, "AuthorizationFailure", "This explorer only reads."], call);
  }
  assert.equal(sql(`SELECT count_entities('${name}'), count(*) FROM query_tables() WHERE table_name = 'Another'`), "3|0");
});

test("without the token there is no data, and the page says which address to open", async () => {
  const page = await open(`${origin}/explorer#account=devstoreaccount1&table=Grid`);
  await says(page, "NoAuthenticationInformation", ".problem");
  await says(page, "Open the address that was printed when the program started", ".problem");
  await close(page);
  for (const secret of [undefined, "", "wrong", token.slice(1), `${token}x`]) {
    const { status } = await call("query_tables", {}, { Authorization: secret === undefined ? "" : `Bearer ${secret}` });
    assert.equal(status, 401, secret);
  }
  const other = reading.split("#token=")[1];
  assert.equal((await call("query_tables", {}, { Authorization: `Bearer ${other}` })).status, 401, "the token of another start");
});

test("a link with a wrong token does not replace the right one", async () => {
  const page = await open(at({ table: "Grid" }));
  await page.waitForSelector("main .grid");
  for (const wrong of ["wrong", `${token}x`, "", "\u20ac"]) {
    const other = await page.browserContext().newPage();
    await other.goto(`${origin}/explorer#token=${encodeURIComponent(wrong)}&account=devstoreaccount1&table=Grid`);
    await other.waitForSelector("main .grid");
    assert.equal(await other.evaluate(() => Object.values(localStorage).join()), token);
    await other.close();
  }
  await close(page);
});

test("calls are POST with JSON, bounded, and of the page's own origin", async () => {
  assert.equal((await call("query_tables", {}, { "Content-Type": "text/plain" })).status, 415);
  assert.equal((await call("query_tables", {}, { Origin: "http://127.0.0.1:1" })).status, 403);
  assert.equal((await call("query_tables", {}, { Origin: "null" })).status, 403);
  assert.equal((await call("query_tables", {}, { Origin: origin })).status, 200);
  assert.equal((await call("query_tables", { other: 1 })).status, 400);
  assert.equal((await call("nothing", {})).status, 404);
  assert.equal((await call("insert_entity", { table: "x".repeat(9 << 20) })).status, 413);
  assert.equal((await call("insert_entity", { table: "x".repeat(9 << 20) }, { Authorization: "Bearer x" })).status, 401);
  assert.equal((await fetch(`${origin}/explorer/api/devstoreaccount1/query_tables`)).status, 405);
  assert.equal((await fetch(`${origin}/explorer/../etc/passwd`)).status, 404);
  assert.equal((await fetch(`${origin}/explorer/main.js`, { method: "DELETE" })).status, 404);
});

test("a page of a name that leads to this machine gets nothing", async () => {
  const { port } = new URL(origin);
  const rebound = `http://evil.example:${port}`;
  const page = await open();
  const response = await page.goto(`${rebound}/explorer#token=${token}`);
  assert.equal(response.status(), 421);
  await says(page, "admin_hosts");
  const statuses = await page.evaluate(async (token) => {
    const paths = ["/explorer/api", "/explorer/main.js", "/metrics", "/reset"];
    return Promise.all(paths.map(async (path) => (await fetch(path, {
      method: path === "/explorer/api" ? "POST" : "GET",
      headers: path === "/explorer/api" ? { Authorization: `Bearer ${token}`, "Content-Type": "application/json" } : {},
    })).status));
  }, token);
  assert.deepEqual(statuses, [421, 421, 421, 421]);
  await page.browserContext().close();
});

test("pages of another port and of another site cannot call, read or embed the explorer", async () => {
  const name = table("Attacked", employees);
  const server = http.createServer((_, response) => response.end("<!doctype html><title>x</title>")).listen(0, "127.0.0.1");
  await new Promise((resolve) => { server.on("listening", resolve); });
  try {
    for (const host of ["127.0.0.1", "localhost", "evil.example"]) {
      const page = await open(writing);
      await says(page, "Connect a program");
      // In the same browser, in which the token is known to the explorer's own origin.
      const attacker = await page.browserContext().newPage();
      await attacker.goto(`http://${host}:${server.address().port}/`);
      assert.equal(await attacker.evaluate(() => Object.keys(localStorage).length), 0);
      const outcomes = await attacker.evaluate(async (origin, name) => {
        const url = `${origin}/explorer/api/devstoreaccount1/clear_table`;
        const body = JSON.stringify({ table: name });
        const attempts = [
          { mode: "no-cors", headers: { "Content-Type": "text/plain" } },
          { mode: "cors", headers: { "Content-Type": "application/json" } },
          { mode: "cors", credentials: "include", headers: { "Content-Type": "application/json", Authorization: "Bearer x" } },
        ];
        const results = await Promise.all(attempts.map((init) => fetch(url, { method: "POST", body, ...init })
          .then((response) => response.type, () => "refused")));
        const read = await fetch(`${origin}/metrics`).then((response) => response.text(), () => "refused");
        const script = await new Promise((resolve) => {
          const element = document.createElement("script");
          element.src = `${origin}/explorer/main.js`;
          element.onload = () => resolve("loaded");
          element.onerror = () => resolve("refused");
          document.head.append(element);
        });
        const frame = document.createElement("iframe");
        frame.src = `${origin}/explorer`;
        document.body.append(frame);
        await new Promise((resolve) => { frame.onload = resolve; });
        let inside;
        try {
          inside = frame.contentDocument ? "readable" : "closed";
        } catch {
          inside = "closed";
        }
        return [...results, read, script, inside];
      }, origin, name);
      assert.deepEqual(outcomes, ["refused", "refused", "refused", "refused", "refused", "closed"], host);
      const framed = attacker.frames().find((frame) => frame !== attacker.mainFrame());
      assert.doesNotMatch(await framed.content().catch(() => ""), /main\.js/);
      // A form of another page.
      await attacker.evaluate((origin) => {
        const form = document.createElement("form");
        form.method = "post";
        form.enctype = "text/plain";
        form.action = `${origin}/explorer/api/devstoreaccount1/clear_table`;
        const input = document.createElement("input");
        input.name = '{"table":"Attacked","x":"';
        input.value = '"}';
        form.append(input);
        document.body.append(form);
        form.submit();
      }, origin);
      await attacker.waitForFunction(() => document.body.innerText.includes("AuthorizationFailure"));
      await close(page);
      assert.equal(sql(`SELECT count_entities('${name}')`), "3", host);
    }
  } finally {
    server.close();
  }
});

test("a path of an export works once", async () => {
  const name = table("Once", employees);
  const { body } = await call("export", { table: name, filter: null, format: "jsonl" });
  const first = await fetch(origin + body.path);
  assert.equal(first.headers.get("content-disposition"), 'attachment; filename="Once.jsonl"');
  assert.equal((await first.text()).trim().split("\n").length, 3);
  assert.equal((await fetch(origin + body.path)).status, 404);
  assert.equal((await fetch(`${origin}/explorer/download/`)).status, 404);
  for (const format of ["csv", "jsonl"]) {
    const refused = await call("export", { table: "Nowhere", format });
    assert.deepEqual([refused.status, refused.body.error.code], [404, "TableNotFound"]);
  }
  // It was there when the export was prepared.
  for (const format of ["csv", "jsonl"]) {
    table("Vanishing", employees);
    const prepared = await call("export", { table: "Vanishing", format });
    sql("SELECT delete_table('Vanishing')");
    const refused = await fetch(origin + prepared.body.path);
    assert.deepEqual([refused.status, (await refused.json()).error.code], [404, "TableNotFound"]);
  }
});

test("all answers forbid what a page does not need", async () => {
  for (const path of ["/explorer", ...await files(), "/explorer/main.js", "/explorer/api"]) {
    const { headers } = await fetch(origin + path);
    const policy = headers.get("content-security-policy");
    for (const part of [
      "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'", "frame-ancestors 'none'",
      "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'",
    ]) assert.ok(policy.split("; ").includes(part), `${path}: ${part}`);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.equal(headers.get("access-control-allow-origin"), null);
    assert.equal(headers.get("set-cookie"), null);
  }
});

// --- Values and keys of every kind --------------------------------------------------------------------------------------------

const HOSTILE = `<img src=x onerror="alert('in')"><script>alert('in')</script>`;
// Keys have no slash.
const HOSTILE_KEY = `<img src=x onerror="alert('in')">`;

test("hostile values stay text, wherever they are shown", async () => {
  const name = table("Hostile", [
    [HOSTILE_KEY, "\u202e%2F..'\"🎉", { V: HOSTILE, Note: "javascript:alert(1)", Rtl: "\u05d0\u05d1\u202egnp.exe", Marks: `Z${"\u0301".repeat(200)}` }],
  ]);
  const page = await open(at({ table: name }));
  await says(page, "1 entity", ".pages");
  await says(page, HOSTILE, "main td");
  const cell = await page.$$eval("main tbody td", (cells) => cells.map((one) => {
    const outer = one.getBoundingClientRect();
    return one.scrollHeight > 0 && getComputedStyle(one).contain.includes("paint") && outer.height < 200;
  }));
  assert.ok(cell.every(Boolean), "what is in a cell is painted in it");
  await page.$eval("main button.open", (one) => one.click());
  await page.waitForSelector("#panel textarea[aria-label='Value of V']");
  assert.equal(await page.$eval("#panel textarea[aria-label='Value of V']", (one) => one.value), HOSTILE);
  await fill(page, "Value of V", `${HOSTILE}2`);
  sql(`SELECT count(update_entities('${name}', 'true', '{"V": "<svg onload=alert(1)>"}'))`);
  await save(page);
  await says(page, "<svg onload=alert(1)>", "#panel");
  await press(page, "Edit yours");
  await press(page, "Change keys");
  await says(page, "One transaction", "#panel");
  await fill(page, "RowKey", `${HOSTILE_KEY}2`);
  await submit(page);
  await says(page, "The entity has its new keys.", "#status");
  await fill(page, "Filter", `V eq '${HOSTILE.replaceAll("'", "''")}`);
  await says(page, "InvalidInput", "#explanation");
  assert.equal(await page.evaluate(() => document.querySelectorAll("main img, main script, #panel img, #panel script, svg[onload]").length), 0);
  await close(page);
});

test("keys of every kind are opened, changed, and named by a filter in an address", async () => {
  const keys = ["🎉👩‍👩‍👧", "it's \"so\"", "%2F%23&=+", "\u05e9\u05dc\u05d5\u05dd \u202eabc", "-1", " x "];
  const name = table("Kinds", keys.map((key, index) => [key, key, { N: index }]));
  const page = await open(at({ table: name }));
  await says(page, `${keys.length} entities.`, ".pages");
  for (const [index, key] of keys.entries()) {
    await page.goto("about:blank");
    await page.goto(at({ table: name, filter: `PartitionKey eq '${key.replaceAll("'", "''")}'` }));
    await says(page, "1 entity.", ".pages");
    await page.reload();
    await says(page, "1 entity.", ".pages");
    await page.$eval("main button.open", (one) => one.click());
    const shown = await field(page, "RowKey");
    assert.equal(await shown.evaluate((one) => one.value), key);
    await fill(page, "Value of N", String(index + 100));
    await save(page);
    await says(page, "Saved.", "#status");
  }
  assert.equal(sql(`SELECT count(*) FROM query_entities('${name}') AS e WHERE partition_key = row_key AND get_int32(properties, 'N') >= 100`), String(keys.length));
  await close(page);
});

test("252 columns, a bag of 1 MiB, and 63 tables with long names can be used", async () => {
  const wide = Object.fromEntries(Array.from({ length: 252 }, (_, index) => [`Property${String(index).padStart(3, "0")}`, index]));
  // The longest texts that there may be; with its overhead the entity has 1 MiB but for some hundred bytes. Control characters are
  // the longest in JSON.
  const large = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`Large${index}`, (index % 2 ? "\u0001" : "é").repeat(index ? 32_768 : 32_300)]));
  const name = table("Wide", [["p", "1", wide]]);
  const insert = await call("insert_entity", { table: name, partitionKey: "p", rowKey: "2", properties: JSON.stringify(large) });
  assert.equal(insert.status, 200, JSON.stringify(insert.body));
  sql("SELECT count(create_table('L' || repeat('o', 60) || to_char(i, 'FM00'))) FROM generate_series(1, 63) AS i");
  const page = await open(at({ table: name }));
  await says(page, "2 entities", ".pages");
  assert.equal((await grid(page))[0].length, 4 + 252 + 16);
  await says(page, "32,768 characters", "main td");
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(sideways <= 0, "only the grid scrolls sideways");
  await press(page, "Open p 2");
  const value = await field(page, "Value of Large14");
  assert.equal(await value.evaluate((one) => one.value), large.Large14);
  await fill(page, "Value of Large14", "changed");
  await save(page);
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT get_string(properties, 'Large14'), length(get_string(properties, 'Large0')) FROM get_entity('${name}', 'p', '2')`), "changed|32300");
  assert.equal((await call("insert_entity", { table: name, partitionKey: "p", rowKey: "3", properties: JSON.stringify({ ...large, Large0: large.Large1 }) })).body.error.code,
    "EntityTooLarge");
  sql("SELECT count(delete_table(table_name)) FROM query_tables() WHERE table_name ~ '^Lo{60}'");
  await close(page);
});

// --- How it feels -------------------------------------------------------------------------------------------------------------

test("everything can be done by keyboard alone", async () => {
  const name = table("Keys", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const nameInFocus = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
  const tabTo = async (wanted, key = "Tab") => {
    for (let count = 0; (await nameInFocus()) !== wanted; count += 1) {
      assert.ok(count < 100, `${wanted} cannot be reached`);
      await page.keyboard.press(key);
    }
  };
  await tabTo("To the entities");
  await page.keyboard.press("Enter");
  await page.keyboard.press("/");
  await page.keyboard.type("Age gt 20");
  // The old rows stay until there are others, and take the focus with them.
  await page.$eval("main .grid", (grid) => { grid.dataset.old = ""; });
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("Age") && !document.querySelector("main .grid[data-old]"));
  await page.waitForSelector("main .grid");
  await says(page, "3 entities.", ".pages");
  await tabTo("Open Marketing 00001");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await nameInFocus(), "Open Sales 00010");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await focused(page, "#panel-title");
  await page.keyboard.press("Escape");
  assert.equal(await nameInFocus(), "Open Marketing 00002");
  await page.keyboard.press("Enter");
  await focused(page, "#panel-title");
  await tabTo("Value of Name");
  await page.keyboard.press("End");
  await page.keyboard.type("!");
  await tabTo("Save 1 change");
  await page.keyboard.press("Enter");
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties ->> 'Name' FROM get_entity('${name}', 'Marketing', '00002')`), "Jun Cao!");
  // The page of entities was made anew, and one is where one was.
  await focused(page, "[aria-label='Open Marketing 00002']");
  // Escape in an input method ends the composition, not the edit.
  await page.keyboard.press("Enter");
  await field(page, "Value of Name");
  const isOpen = (isComposing) => page.evaluate((isComposing) => {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", isComposing, bubbles: true }));
    return !document.getElementById("panel").hidden;
  }, isComposing);
  assert.deepEqual([await isOpen(true), await isOpen(false)], [true, false]);
  await close(page);
});

test("nothing is found by axe-core, in light and dark, wide and narrow, and nothing is wider than 320 pixels", async () => {
  const name = table("Accessible", employees);
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 320]) {
      const page = await open(undefined, { width });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(at({ table: name, filter: "Age gt 20" }));
      await says(page, "3 entities.", ".pages");
      await says(page, "tested on each row", "#explanation");
      const what = `${scheme}, ${width}`;
      await accessible(page, `${what}: entities`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what}: entities`);
      await press(page, "Open Sales 00010");
      await named(page, "textarea", "Value of Name");
      await accessible(page, `${what}: an entity`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what}: an entity`);
      await close(page);
    }
  }
});

// --- Pictures of the documentation --------------------------------------------------------------------------------------------

test("pictures", { skip: !process.env.SCREENSHOTS }, async () => {
  sql("SELECT create_table('Orders')");
  sql(`SELECT count(insert_entity('Orders', 'customer-' || to_char(i % 7, 'FM00'), 'order-' || to_char(i, 'FM0000'), format(
    '{"Customer": "%s", "Items": %s, "Total": %s, "Paid": %s, "Placed@odata.type": "Edm.DateTime", "Placed": "2026-11-%sT0%s:15:00Z"}',
    (ARRAY['Don Hall', 'Jun Cao', 'Ken Kwok', 'Kim Akers', 'Lene Aaling', 'Luka Abrus', 'Sagiv Hadaya'])[1 + i % 7],
    1 + i % 5, (10 + i * 37 % 400) + 0.5, (i % 3 <> 0)::text, to_char(1 + i % 28, 'FM00'), i % 10)::properties)) FROM generate_series(1, 400) AS i`);
  sql("SELECT create_property_index('Orders', 'Total')");
  for (const one of ["Customers", "Invoices", "Sessions"]) table(one, employees);
  sql('ANALYZE');
  const take = async (name, scheme, width, height, act = async () => {}) => {
    const page = await open(undefined, { width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(at({ table: "Orders", filter: "PartitionKey ge 'customer-02' and PartitionKey lt 'customer-05' and Paid eq true" }));
    await says(page, "100 entities", ".pages");
    await says(page, "tested on each row", "#explanation");
    await act(page);
    await page.screenshot({ path: path.join(process.env.SCREENSHOTS, `${name}.png`) });
    await close(page);
  };
  const entity = async (page) => {
    await page.$eval("main tbody tr:nth-child(4) button.open", (one) => one.click());
    await page.waitForSelector("#panel .property");
  };
  await take("explorer-light", "light", 1280, 720, entity);
  await take("explorer-dark", "dark", 1280, 720, entity);
  await take("explorer-narrow", "light", 320, 720);
});
