// The first page, partitions, how a filter reads, the editor of entities, and imports, as people use them.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { gzipSync } = require("node:zlib");
const { after, before, test } = require("node:test");
const {
  accessible, at, chooseForm, close, employees, field, file, fill, importFile, named, open, origin, press, reading, save, says, sql, start, stop, table, writing,
} = require("./support.js");

before(start);
after(stop);

/** Runs SQL in the database of the account `second`. */
const second = (text) => execFileSync("psql", ["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", "second", "-c", "SET search_path = table_service", "-c", text], { encoding: "utf8" }).trim();

/** The texts in the rows of a table of the page, by the text of its head. */
const rowsOf = (page, selector) => page.$$eval(`${selector} tbody tr`, (rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())));

const entities = Array.from({ length: 3000 }, (_, index) => index);
/** Makes a table of 3,000 entities in three partitions; 5 of them have a Maintainer Ada. */
function packages(name) {
  table(name);
  sql(`SELECT count(insert_entity('${name}', 'p' || i % 3, to_char(i, 'FM0000'),
    format('{"Maintainer": "%s", "Size": %s}', CASE WHEN i % 600 = 0 THEN 'Ada' ELSE 'Odd' END, i)::properties)) FROM generate_series(1, ${entities.length}) AS i`);
  sql(`ANALYZE table_service_data."${name}"`);
  return name;
}

// --- The first page -----------------------------------------------------------------------------------------------------------

/** The texts of the list of tables, without the curves. */
const listed = (page) => rowsOf(page, ".tables-list").then((rows) => rows.map((row) => row.slice(0, 5)));

test("the first page has all tables in a list that is searched and sorted, with the load and how a program connects above it", async () => {
  const name = packages("Listed1");
  sql(`SELECT create_property_index('${name}', 'Size')`);
  // PostgreSQL has analysed none of these.
  sql(`SELECT count(create_table('Listed' || i)) FROM generate_series(100, 400) AS i`);
  sql("SELECT count(insert_entity('Listed200', 'p', i::text, '{}')) FROM generate_series(1, 7) AS i; SELECT pg_stat_force_next_flush()");
  const page = await open(at({}), { width: 1920, height: 1080 });
  await says(page, "Connect a program");
  await page.waitForSelector(".plot");
  await fill(page, "Find a table in the list", "listed");
  await says(page, "302 of ", ".tables-list");
  const rows = await listed(page);
  assert.equal(rows.length, 302);
  assert.match(rows[0].join("|"), /^Listed1\|≈ 3,000\|[0-9]+ kB\|1\|–$/);
  assert.deepEqual(rows.find(([table]) => table === "Listed200").slice(0, 2), ["Listed200", "≈ 7"]);
  assert.deepEqual(rows.find(([table]) => table === "Listed201").slice(0, 2), ["Listed201", "0"]);
  await press(page, "Entities");
  assert.deepEqual((await listed(page)).slice(0, 2).map(([table]) => table), ["Listed1", "Listed200"]);
  await press(page, "Size");
  assert.equal((await listed(page))[0][0], "Listed1");
  await press(page, "Table");
  assert.deepEqual((await listed(page)).slice(0, 2).map(([table]) => table), ["Listed1", "Listed100"]);
  // All that is above the list can be seen with its beginning, and the width is used.
  const places = await page.evaluate(() => [...document.querySelectorAll(".connect, .plot, .tables-list tbody tr:first-child")].map((one) => one.getBoundingClientRect())
    .map(({ top, bottom, right }) => ({ top, bottom, right })));
  assert.equal(places.length, 4);
  assert.ok(places[0].top < places[1].top && places[1].bottom < places[3].top && places[3].bottom < 600, JSON.stringify(places));
  assert.ok(places[3].right > 1880, JSON.stringify(places));
  // The development account has a public key; of another one only the gateway knows it.
  const connection = await field(page, "Connection string");
  assert.match(await connection.evaluate((one) => one.value),
    /^DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM0[^;]*==;TableEndpoint=http:\/\/127\.0\.0\.1:\d+\/devstoreaccount1$/);
  await page.browserContext().overridePermissions(origin, ["clipboard-read", "clipboard-sanitized-write"]);
  await page.bringToFront();
  await page.click(".connect summary");
  for (const [language, line] of [
    ["Python", "from azure.data.tables import"], ["JavaScript", "@azure/data-tables"], [".NET", "new TableClient("], ["Java", "TableServiceClientBuilder"],
    ["Go", "aztables.NewServiceClientFromConnectionString"], ["psql", "SELECT create_table('People'"],
  ]) {
    await press(page, language);
    await says(page, line, ".connect pre");
    assert.equal((await page.$eval(".connect pre", (one) => one.textContent)).split("\n").length, 5, language);
  }
  await press(page, "Copy the lines");
  await says(page, "Copied.", "#status");
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^SET search_path = table_service/);
  await accessible(page, "the first page");
  await page.evaluate(() => [...document.querySelectorAll(".tables-list a")].find((one) => one.innerText === "Listed1").click());
  await says(page, "100 entities, and there are more.");
  await close(page);
  sql("SELECT count(delete_table(table_name)) FROM query_tables() WHERE table_name ~ '^Listed[0-9]{3}$'");
});

test("without tables the first page loads a sample, and does not know a secret key", async () => {
  second("SELECT delete_table('Elsewhere')");
  try {
    const page = await open(writing);
    await says(page, "Connect a program");
    await page.select("#account", "second");
    await says(page, "There are no tables yet");
    assert.match(await (await field(page, "Connection string")).evaluate((one) => one.value), /;AccountName=second;AccountKey=KEY;/);
    await says(page, "The explorer does not know the key of this account.");
    await accessible(page, "no tables");
    await press(page, "Load sample data");
    await says(page, "Ganymede", "main");
    await says(page, "Readings", "#tables");
    assert.equal(second("SELECT count_entities('Moons') > 20, count_entities('Readings'), count(*) FROM query_property_indexes('Moons')"), "t|288|1");
    await close(page);
  } finally {
    second("SELECT count(delete_table(table_name)) FROM query_tables(); SELECT create_table('Elsewhere')");
  }
});

test("the load has axes with units, requests, errors and a latency; without requests it says so", async () => {
  const quiet = await open(`${reading}&view=load`);
  await says(quiet, "No requests in the last 2 minutes", ".plot");
  await accessible(quiet, "no load");
  await close(quiet);

  await fetch(`${process.env.GATEWAY_CLIENTS}/devstoreaccount1/Tables`);
  const page = await open(`${writing}&view=load`);
  await page.waitForFunction(() => ["QueryTables", "The next reading comes in 2 seconds"].every((text) => document.body.innerText.includes(text)));
  const isMeasured = () => page.evaluate(() => document.querySelector(".plot polyline.p99")
    && [...document.querySelectorAll(".plot .figure")].some((one) => / m?s$/.test(one.innerText)));
  let measured = false;
  for (let count = 0; count < 240 && !measured; count += 1) {
    await fetch(`${process.env.GATEWAY_CLIENTS}/devstoreaccount1/Tables`);
    await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 500); }));
    measured = await isMeasured();
  }
  assert.ok(measured);
  const texts = await page.$$eval(".plot text", (all) => all.map((one) => one.textContent));
  for (const text of ["0", "−2 min", "−1 min", "now", "0 ms"]) assert.ok(texts.includes(text), `${text}: ${texts}`);
  assert.ok(await page.$(".plot polyline.errors"));
  await accessible(page, "load");
  await close(page);
});

test("the list shows the requests a second of a table, also as a curve, and is sorted by them", async () => {
  table("Asked", employees);
  const page = await open();
  await page.setRequestInterception(true);
  let count = 0;
  let before = 0;
  page.on("request", (request) => {
    if (new URL(request.url()).pathname !== "/metrics") return request.continue();
    // Ten a second, however long the page has waited.
    const now = Date.now();
    count += before ? (now - before) / 100 : 50;
    before = now;
    return request.respond({ body: `table_service_table_requests_total{account="devstoreaccount1",table="asked"} ${count}\n` });
  });
  await page.goto(at({}));
  await page.waitForSelector(".tables-list .curve");
  await page.mouse.move(1, 1);
  await press(page, "Requests a second");
  const asked = async () => (await listed(page))[0];
  assert.equal((await asked())[0], "Asked");
  // The first reading is no rate: fifty requests at once would be many a second.
  await page.waitForFunction(() => /^(?:9\.[5-9]|10)$/.test(document.querySelector(".tables-list td.requests").innerText));
  await close(page);
});

test("the latency of requests lies within a bucket, and goes with them", async () => {
  const page = await open();
  await page.setRequestInterception(true);
  // Of the requests a growing part takes more than a millisecond, and none more than 2.5.
  let readings = 0;
  const bucket = (end, count) => `table_service_request_duration_seconds_bucket{le="${end}",operation="GetEntity"} ${count}\n`;
  page.on("request", (request) => {
    if (new URL(request.url()).pathname !== "/metrics") return request.continue();
    readings += 1;
    return request.respond({
      body: `table_service_requests_total{operation="GetEntity",status="200",code=""} ${readings * 100}\n${
        bucket("0.001", readings * 90)}${bucket("0.0025", readings * 100)}${bucket("+Inf", readings * 100)}`,
    });
  });
  await page.goto(at({ view: "load" }));
  await says(page, "2.35 ms", ".plot .figure");
  await says(page, "GetEntity", "[aria-label=Operations]");
  assert.deepEqual((await rowsOf(page, "[aria-label=Operations]"))[0].slice(3), ["0.556 ms", "2.35 ms"]);
  await close(page);
});

test("a plot says the values under the pointer, and shows a longer time when one asks", async () => {
  const page = await open(`${writing}&view=load`);
  for (let count = 0; count < 240 && !await page.$(".plot polyline.requests"); count += 1) {
    await fetch(`${process.env.GATEWAY_CLIENTS}/devstoreaccount1/Tables`);
    await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 500); }));
  }
  const { x, y, width, height } = await page.$eval(".plot svg", (one) => one.getBoundingClientRect().toJSON());
  await page.mouse.move(x + width - 20, y + height / 2);
  const words = () => page.$eval(".plot .values", (one) => one.textContent);
  assert.match(await words(), /^\d.* · requests [\d.,]+ · errors [\d.,]+$/);
  // The next reading draws it again, below the same pointer.
  await page.$eval(".plot svg", (one) => { one.dataset.old = ""; });
  await page.waitForFunction(() => !document.querySelector(".plot svg[data-old]"));
  assert.match(await words(), /^\d.* · requests [\d.,]+ · errors [\d.,]+$/);
  await page.mouse.move(2, 2);
  assert.equal(await words(), "");
  await press(page, "60 min");
  const texts = () => page.$$eval(".plot text", (all) => all.map((one) => one.textContent));
  assert.ok((await texts()).includes("−60 min"), String(await texts()));
  await page.reload();
  await says(page, "QueryTables");
  assert.ok((await texts()).includes("−30 min"), String(await texts()));
  await close(page);
});

// --- How a filter reads -------------------------------------------------------------------------------------------------------

test("a scan says how much it reads for what it finds, and creates the index that would serve it", async () => {
  const page = await open(at({ table: packages("Scanned"), filter: "Maintainer eq 'Ada'" }));
  await says(page, "reads all entities", "#explanation");
  await says(page, "3,000 read, 5 returned", "#explanation");
  await press(page, "Create an index on Maintainer");
  await says(page, "There is an index on Maintainer.", "#status");
  await says(page, "property index scan", "#explanation");
  await says(page, "5 read, 5 returned", "#explanation");
  // An index would not help a condition on keys, a choice, or a table that is small.
  for (const filter of ["RowKey eq '0001'", "Size eq 1 or Maintainer eq 'Odd'", "not (Size gt 5)"]) {
    await fill(page, "Filter", filter);
    await says(page, filter.slice(0, 6), "#explanation .residual");
    assert.equal(await page.evaluate(() => document.querySelector(".advice")?.innerText ?? ""), "", filter);
  }
  await page.goto(at({ table: table("Tiny", employees), filter: "Age gt 30" }));
  await says(page, "3 read, 2 returned", "#explanation");
  assert.equal(await page.$eval(".advice", (one) => one.checkVisibility()), false);
  await close(page);
});

test("the key ranges of a filter stand on a line in the order of keys", async () => {
  const page = await open(at({ table: table("Ranges", employees), filter: "" }));
  const lines = {
    "PartitionKey eq 'Sales'": ["gap", "range Sales", "gap"],
    "PartitionKey eq 'Sales' and RowKey eq '1'": ["gap", "point Sales / 1", "gap"],
    "PartitionKey ge 'a' and PartitionKey lt 'b'": ["gap", "range a|b", "gap"],
    "PartitionKey gt 'it''s'": ["gap", "range it's|"],
    "PartitionKey eq 'p' and RowKey gt '5' or PartitionKey eq 'q' and RowKey eq '<b>'": ["gap", "range p / 5|", "gap", "point q / <b>", "gap"],
  };
  for (const [filter, expected] of Object.entries(lines)) {
    await fill(page, "Filter", filter);
    await page.waitForFunction((expected) => {
      const parts = [...document.querySelectorAll(".keyline .track > span")].map((part) => [
        part.classList[0], ...[[...part.querySelectorAll("bdi")].map((text) => text.textContent).join("|")].filter(Boolean),
      ].join(" "));
      return JSON.stringify(parts) === JSON.stringify(expected);
    }, {}, expected).catch(async () => assert.fail(`${filter}: ${await page.$eval(".keyline", (one) => one.outerHTML)}`));
  }
  // The mathematics stand with the SQL.
  assert.ok(!(await page.$eval("#explanation", (one) => one.innerText)).includes("∞"));
  await page.click("#explanation summary");
  await says(page, "[('q','<b>'), ('q','<b>')]", "#explanation details");
  await accessible(page, "key ranges");
  await close(page);
});

// --- Partitions ---------------------------------------------------------------------------------------------------------------

test("partitions are bars, estimated or counted, and one click shows one of them", async () => {
  const name = table("Parted");
  sql(`SELECT count(insert_entity('${name}', 'large', i::text, '{"A": 1}')) FROM generate_series(1, 1200) AS i;
    SELECT count(insert_entity('${name}', 'it''s', i::text, '{"A": 1}')) FROM generate_series(1, 7) AS i`);
  const page = await open(at({ table: name, view: "partitions" }));
  await says(page, "2 partitions in the order of their keys.", "main");
  // Without statistics it is counted, but not the whole.
  await says(page, "1,000+", "[aria-label=Partitions]");
  const rows = await rowsOf(page, "[aria-label=Partitions]");
  assert.deepEqual(rows.map((row) => [row[0], row[2]]), [["large", "1,000+"], ["it's", "7"]]);
  assert.match(rows[1][3], /^[0-9]+ B$/);
  await press(page, "PartitionKey");
  assert.deepEqual((await rowsOf(page, "[aria-label=Partitions]")).map((row) => row[0]), ["it's", "large"]);
  await accessible(page, "partitions");

  sql(`ANALYZE table_service_data."${name}"`);
  await page.reload();
  await says(page, "≈ 1,200", "[aria-label=Partitions]");
  // A partition with old statistics is counted, and one that is gone is not shown.
  sql(`SELECT delete_entities('${name}', $$PartitionKey eq 'it''s' and RowKey ne '1'$$)`);
  await page.reload();
  await page.waitForFunction(() => [...document.querySelectorAll("[aria-label=Partitions] tbody tr")].some((row) => /it's\s+1\s/.test(row.innerText)));
  sql(`SELECT delete_entities('${name}', $$PartitionKey eq 'large' and RowKey ne '1' and RowKey ne '2'$$)`);
  await page.reload();
  await page.waitForFunction(() => [...document.querySelectorAll("[aria-label=Partitions] tbody tr")].some((row) => /large\s+2\s/.test(row.innerText)));
  await press(page, "it's");
  await says(page, "1 entity.", ".pages");
  assert.equal(await (await field(page, "Filter")).evaluate((one) => one.value), "PartitionKey eq 'it''s'");
  await close(page);
});

test("of many partitions the first ones are shown, and more when one asks", async () => {
  const name = table("Shredded");
  sql(`SELECT count(insert_entity('${name}', to_char(i, 'FM000'), 'r', '{}')) FROM generate_series(1, 70) AS i`);
  const page = await open(at({ table: name, view: "partitions" }));
  await says(page, "The first 50 partitions in the order of their keys.", "main");
  assert.equal((await rowsOf(page, "[aria-label=Partitions]")).length, 50);
  await press(page, "More partitions");
  await says(page, "70 partitions in the order of their keys.", "main");
  assert.equal((await rowsOf(page, "[aria-label=Partitions]")).length, 70);
  await page.goto(at({ table: table("Unparted"), view: "partitions" }));
  await says(page, "The table has no entities.", "main");
  await close(page);
});

// --- One entity ---------------------------------------------------------------------------------------------------------------

const everything = {
  Flag: true, "When@odata.type": "Edm.DateTime", When: "2026-01-31T12:00:00.1234567Z", "Bytes@odata.type": "Edm.Binary", Bytes: "SGVsbG8=",
  Json: '{"id":9007199254740993,"tags":["<b>","x"],"none":null}', Text: "plain", Count: 5,
};

test("values are edited as their types are: a switch, a picker, hex and text, JSON as a tree", async () => {
  const name = table("Typed", [["p", "1", everything]]);
  const stored = (property) => sql(`SELECT properties ->> '${property}' FROM get_entity('${name}', 'p', '1')`);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");

  const flag = await named(page, "[role=switch]", "Value of Flag");
  assert.equal(await flag.evaluate((one) => one.getAttribute("aria-checked")), "true");
  await flag.evaluate((one) => one.click());
  assert.equal(await flag.evaluate((one) => one.getAttribute("aria-checked")), "false");

  await press(page, "Choose the date and time of When");
  await fill(page, "Moment", "2027-02-28T12:00:00");
  await press(page, "Done");
  // The digits that the picker does not show stay.
  assert.equal(await (await field(page, "Value of When")).evaluate((one) => one.value), "2027-02-28T12:00:00.1234567Z");

  await press(page, "Hex");
  const hex = await field(page, "Value of Bytes as hex");
  assert.equal(await hex.evaluate((one) => one.value), "48 65 6c 6c  6f");
  await fill(page, "Value of Bytes as hex", "48 6");
  await save(page);
  await says(page, 'The value of "Bytes" is no hex.', "#panel .fault");
  await fill(page, "Value of Bytes as hex", "48 69");
  await press(page, "Text");
  assert.equal(await (await field(page, "Value of Bytes as text")).evaluate((one) => one.value), "Hi");
  await fill(page, "Value of Bytes as text", "Hé");
  await press(page, "Base64");
  assert.equal(await (await field(page, "Value of Bytes")).evaluate((one) => one.value), "SMOp");

  await press(page, "Tree: Value of Json");
  await says(page, "9007199254740993", "#panel .tree");
  await page.$$eval("#panel .tree summary", (all) => all.at(-1).click());
  await says(page, '"<b>"', "#panel .tree");
  await says(page, "Save 3 changes", "#panel");
  await accessible(page, "values of all types");
  await save(page);
  await says(page, "Saved.", "#status");
  assert.deepEqual([stored("Flag"), stored("When"), stored("Bytes"), stored("Json")],
    ["false", "2027-02-28T12:00:00.1234567Z", "SMOp", everything.Json]);
  await close(page);
});

test("the panel is as wide as one drags it, which is remembered, and a property has one line", async () => {
  const page = await open(at({ table: table("Panel", employees) }));
  await press(page, "Open Marketing 00001");
  await field(page, "Value of Age");
  const heights = await page.$$eval(".property", (rows) => rows.map((row) => row.offsetHeight));
  assert.ok(Math.max(...heights) <= 32, String(heights));
  const width = () => page.$eval("#panel", (one) => one.offsetWidth);
  const before = await width();
  const { x, y, height } = await (await page.$("#grip")).boundingBox();
  await page.mouse.move(x + 4, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x - 96, y + height / 2, { steps: 2 });
  await page.mouse.up();
  assert.equal(await width(), before + 100);
  await accessible(page, "a wide panel");
  await page.focus("#grip");
  await page.keyboard.press("ArrowRight");
  assert.equal(await width(), before + 84);
  assert.equal(await page.$eval("#grip", (one) => one.getAttribute("aria-valuenow")), String(before + 84));
  await page.reload();
  await press(page, "Open Marketing 00001");
  await field(page, "Value of Age");
  assert.equal(await width(), before + 84);
  // Neither side can be lost.
  await page.focus("#grip");
  for (let step = 0; step < 60; step += 1) await page.keyboard.press("ArrowLeft");
  assert.ok(await page.$eval("#view", (one) => one.offsetWidth) >= 240);
  await page.click("#grip", { count: 2 });
  assert.equal(await width(), before);
  await close(page);
});

test("JSON has colours, letter by letter below what one types", async () => {
  const page = await open(at({ table: table("ColouredJson", [["p", "1", { A: "x: 1", B: 2, C: true }]]) }));
  await press(page, "Open p 1");
  await field(page, "Value of A");
  await press(page, "As JSON");
  await field(page, "Properties as JSON");
  const parts = () => page.$$eval(".paper span", (all) => all.map((one) => [one.className, one.textContent]));
  assert.deepEqual(await parts(), [["name", '"A"'], ["string", '"x: 1"'], ["name", '"B"'], ["number", "2"], ["name", '"C"'], ["word", "true"]]);
  await page.focus("[aria-label='Properties as JSON']");
  const places = () => page.evaluate(() => {
    const [text, paper] = [document.querySelector(".sheet textarea"), document.querySelector(".paper")];
    const box = (one) => { const { left, top, width } = one.getBoundingClientRect(); return [left, top, width]; };
    const { font, lineHeight, paddingLeft, borderLeftWidth } = getComputedStyle(text);
    const { font: under, lineHeight: line, paddingLeft: padding } = getComputedStyle(paper);
    return [[...box(text), font, lineHeight, Number.parseFloat(paddingLeft) + Number.parseFloat(borderLeftWidth), text.value, getComputedStyle(text).backgroundColor],
      [...box(paper), under, line, Number.parseFloat(padding), paper.textContent, "rgba(0, 0, 0, 0)"]];
  });
  const [text, paper] = await places();
  assert.deepEqual(text, paper);
  await page.keyboard.type(" ");
  assert.equal((await places())[1][6], (await places())[0][6]);
  await accessible(page, "JSON in colours");
  await page.keyboard.press("Backspace");
  await press(page, "Close");
  await close(page);
});

test("changed properties are marked, and a removed one comes back", async () => {
  const page = await open(at({ table: table("Changed", [["p", "1", everything]]) }));
  await press(page, "Open p 1");
  await field(page, "Value of Text");
  const states = () => page.$$eval(".property", (rows) => Object.fromEntries(rows.map((row) => [row.getAttribute("aria-label"), row.dataset.state]).filter(([, state]) => state)));
  assert.deepEqual(await states(), {});
  await fill(page, "Value of Text", "other");
  await press(page, "Remove Count");
  await press(page, "Add a property");
  assert.deepEqual(await states(), { Text: "changed", Count: "removed", "the new property": "added" });
  await says(page, "Save 3 changes", "#panel");
  await press(page, "Undo the change of Count");
  await press(page, "Undo the change of Text");
  await press(page, "Remove the new property");
  assert.deepEqual(await states(), {});
  assert.equal(await (await field(page, "Value of Text")).evaluate((one) => one.value), "plain");
  // Nothing is changed, so nobody is asked.
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.getElementById("panel").hidden);
  await close(page);
});

test("changes that are not saved are not lost without a question, however one leaves", async () => {
  const name = table("Unsaved", employees);
  const page = await open(at({ table: name }));
  const ways = {
    "the button": () => press(page, "Close"),
    Escape: async () => { await page.focus("#panel-title"); await page.keyboard.press("Escape"); },
    "another entity": () => press(page, "Open Sales 00010"),
    "the next entity": () => press(page, "Next entity"),
    "another view": () => press(page, "Access policies"),
    "another panel": () => press(page, "Insert"),
    "an address": () => page.evaluate(() => { location.hash = "account=devstoreaccount1&view=load"; }),
  };
  for (const [way, leave] of Object.entries(ways)) {
    await press(page, "Open Marketing 00001");
    await page.waitForFunction(() => [...document.querySelectorAll("#panel textarea")].slice(0, 2).map((one) => one.value).join() === "Marketing,00001");
    const address = page.url();
    await fill(page, "Value of Age", "35");
    await leave();
    await says(page, "The entity has changes that are not saved.", "#panel");
    await accessible(page, way);
    await press(page, "Keep editing");
    assert.equal(await (await field(page, "Value of Age")).evaluate((one) => one.value), "35", way);
    assert.equal(page.url(), address, way);
    await leave();
    await press(page, "Discard");
    const next = {
      "another entity": () => page.waitForFunction(() => document.querySelector("#panel textarea")?.value === "Sales"),
      "the next entity": () => page.waitForFunction(() => document.querySelectorAll("#panel textarea")[1]?.value === "00002"),
      "another view": () => says(page, "Stored access policies"),
      "another panel": () => says(page, "Insert an entity", "#panel"),
      "an address": () => says(page, "Most requested partitions"),
    }[way];
    await (next ?? (() => page.waitForFunction(() => document.getElementById("panel").hidden)))();
    if (["another view", "an address"].includes(way)) await page.goBack();
    await says(page, "3 entities.", ".pages");
  }
  assert.equal(sql(`SELECT properties ->> 'Age' FROM get_entity('${name}', 'Marketing', '00001')`), "34");
  await close(page);
});

test("an edit needs no pointer: the next entity by a key, and a save by a key", async () => {
  const name = table("Walked", employees);
  const page = await open(at({ table: name }));
  await press(page, "Open Marketing 00001");
  await says(page, "1 of 3", "#panel");
  const key = (wanted) => page.waitForFunction((wanted) => document.querySelectorAll("#panel textarea")[1]?.value === wanted, {}, wanted);
  const alt = async (arrow) => { await page.keyboard.down("Alt"); await page.keyboard.press(arrow); await page.keyboard.up("Alt"); };
  await key("00001");
  await alt("ArrowDown");
  await key("00002");
  await alt("ArrowDown");
  await key("00010");
  await says(page, "3 of 3", "#panel");
  await alt("ArrowUp");
  await key("00002");
  await page.focus("[aria-label='Value of Age']");
  await page.keyboard.press("End");
  await page.keyboard.type("1");
  await page.keyboard.down("Control");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Control");
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties ->> 'Age' FROM get_entity('${name}', 'Marketing', '00002')`), "471");
  await close(page);
});

test("a long value of a conflict is shown around its first difference, and whole when one asks", async () => {
  const text = (end) => `${"the same ".repeat(60)}${end}${" and so on".repeat(60)}`;
  const name = table("Long", [["p", "1", { Text: text("first") }]]);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");
  await fill(page, "Value of Text", text("mine"));
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Text": "${text("theirs")}"}', '*')`);
  await save(page);
  await says(page, "UpdateConditionNotSatisfied", "#panel");
  const cells = () => page.$$eval("#panel .versions summary bdi, #panel .versions details[open] > bdi", (all) => all.map((one) => one.innerText));
  for (const [index, word] of ["mine", "theirs", "first"].entries()) {
    const shown = (await cells())[index];
    assert.ok(shown.includes(word) && shown.startsWith("…") && shown.length < 300, shown);
  }
  await page.$eval("#panel .versions summary", (one) => one.click());
  await says(page, text("mine"), "#panel .versions");
  await accessible(page, "long values of a conflict");
  await close(page);
});

// --- Imports ------------------------------------------------------------------------------------------------------------------

test("CSV with other columns is imported once one has said what they become", async () => {
  const name = table("Mapped");
  const page = await open(at({ table: name }));
  const text = `id;country;full name;born;secret\r\n${Array.from({ length: 450 }, (_, index) => (
    `${index};NO;Ada ${index};1990-02-03T00:00:00Z;x`)).join("\r\n")}\r\n`;
  await chooseForm(page, "Import");

  await (await field(page, "File")).uploadFile(file("people.csv", text));
  await says(page, "CSV with semicolons", "#panel");
  await says(page, "The first 10 of 450 rows.", "#panel");
  const rows = await rowsOf(page, "#panel [aria-label='First rows']");
  assert.deepEqual([rows.length, rows[9]], [10, ["9", "NO", "Ada 9", "1990-02-03T00:00:00Z", "x"]]);
  assert.equal(await (await field(page, "PartitionKey")).evaluate((one) => one.selectedOptions[0].text), "country");
  assert.equal(await (await field(page, "Type of born")).evaluate((one) => one.value), "Edm.DateTime");
  await accessible(page, "a mapping");
  await fill(page, "Property of secret", "");
  await fill(page, "Property of full name", "Name");
  await page.$eval("#panel form button.primary", (one) => one.click());
  await says(page, "Imported 450 entities", "#status");
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'NO', '7')`),
    '{"Name":"Ada 7","born@odata.type":"Edm.DateTime","born":"1990-02-03T00:00:00Z"}');
  await close(page);
});

test("arrays and documents of JSON are imported, also with other keys, in UTF-16 and compressed", async () => {
  const name = table("Arrays");
  const page = await open(at({ table: name }));
  const entity = (key) => ({ PartitionKey: "p", RowKey: key, N: 1 });
  await importFile(page, "x.json", JSON.stringify([entity("1"), entity("2")], null, 2));
  await says(page, "Imported 2 entities", "#status");
  await importFile(page, "x.json", JSON.stringify({ "odata.metadata": "x", value: [entity("3")] }));
  await says(page, "Imported 1 entities", "#status");
  await importFile(page, "x.csv", Buffer.from("\ufeffPartitionKey,RowKey\r\np,é\r\n", "utf16le"));
  await says(page, "4 entities.", ".pages");
  await importFile(page, "x.json.gz", gzipSync(JSON.stringify([entity("5")])));
  await says(page, "5 entities.", ".pages");
  await importFile(page, "x.jsonl.zst", "x");
  await says(page, "Unpack it with zstd -d", "#panel .problem");
  await press(page, "Close");

  await chooseForm(page, "Import");

  const others = [{ id: 1, tags: ["<b>", 2], at: { x: 1 } }, { id: 2, more: "2020-01-01T00:00:00Z" }];
  await (await field(page, "File")).uploadFile(file("others.json", JSON.stringify(others)));
  await says(page, "a JSON document", "#panel");
  await fill(page, "PartitionKey", "text");
  await fill(page, "Text of the PartitionKey", "all");
  await fill(page, "RowKey", "0");
  await page.$eval("#panel form button.primary", (one) => one.click());
  await says(page, "7 entities.", ".pages");
  assert.equal(sql(`SELECT string_agg(properties::text, ' ' ORDER BY row_key) FROM query_entities('${name}', $$PartitionKey eq 'all'$$)`),
    '{"at":"{\\"x\\":1}","tags":"[\\"<b>\\",2]"} {"more@odata.type":"Edm.DateTime","more":"2020-01-01T00:00:00Z"}');
  await close(page);
});

test("a mapping that does not fit says which row, and what was written", async () => {
  const name = table("Unmapped");
  const page = await open(at({ table: name }));
  const lines = Array.from({ length: 250 }, (_, index) => (index === 249 ? '{"id":"a","n":"none"}' : `{"id":"${index}","n":"${index}"}`));

  await chooseForm(page, "Import");
  await (await field(page, "File")).uploadFile(file("x.jsonl", lines.join("\n")));
  await says(page, "JSON lines", "#panel h3");
  await fill(page, "Type of n", "Edm.Int32");
  await page.$eval("#panel form button.primary", (one) => one.click());
  await says(page, "line 250: ", "#panel .problem");
  await says(page, "200 entities were written before.", "#panel .problem");
  assert.equal(sql(`SELECT count_entities('${name}')`), "200");
  await close(page);
});

// --- Others -------------------------------------------------------------------------------------------------------------------

test("a feed is made and dropped with buttons, numbers stand at the right, and the line of a head goes over all columns", async () => {
  const name = table("Fed", employees);
  const page = await open(at({ table: name, view: "changes" }));
  await fill(page, "Name of a feed", "of_fed");
  await press(page, `Create a feed of ${name}`);
  await says(page, "The feed of_fed has the changes of Fed from now on.", "#status");
  sql(`SELECT insert_entity('${name}', 'p', 'later', '{"A": 1}')`);
  await press(page, "Look at the changes of of_fed");
  await says(page, "later", "main");
  await accessible(page, "a feed");
  const alignments = await page.$$eval("[aria-label='Change feeds'] :is(th, tbody td)", (cells) => cells.slice(0, 4).map((one) => getComputedStyle(one).textAlign));
  assert.deepEqual(alignments, ["left", "left", "right", "left"]);
  const lines = (selector) => page.evaluate((selector) => [...new Set([...document.querySelectorAll(`${selector} thead tr > *`)]
    .map((one) => getComputedStyle(one).borderBottomWidth))], selector);
  assert.deepEqual(await lines("[aria-label='Change feeds']"), ["1px"]);
  await press(page, "Drop the feed of_fed");
  await says(page, "Its reader misses the changes that it has not confirmed.", "#panel");
  await press(page, "Drop it");
  await says(page, "The feed of_fed is dropped.", "#status");
  assert.equal(sql("SELECT count(*) FROM query_change_feeds() WHERE feed_name = 'of_fed'"), "0");
  await page.goto(at({ table: name, view: "partitions" }));
  await says(page, "Sales", "[aria-label=Partitions]");
  assert.deepEqual(await lines("[aria-label=Partitions]"), ["1px"]);
  await close(page);
  const only = await open(at({ table: name, view: "changes" }, reading));
  await says(only, "Earlier versions", "main");
  assert.equal(await only.$("main form"), null);
  await close(only);
});

test("the fields of a policy have labels, on a small window too", async () => {
  const name = table("Labelled");
  sql(`SELECT set_access_policies('${name}', '[{"Id":"readers","Permission":"r"},{"Id":"writers","Permission":"au"}]')`);
  for (const [width, all] of [[1280, 4], [390, 8]]) {
    const page = await open(at({ table: name, view: "access" }), { width, height: 844 });
    await named(page, "button", "Remove writers");
    const labels = await page.$$eval(".policy > div > small", (texts) => texts.filter((one) => one.offsetWidth > 10 && getComputedStyle(one).clipPath === "none").map((one) => one.innerText));
    assert.deepEqual(labels.slice(0, 4), ["Name", "Start", "Expiry", "Permission"]);
    assert.equal(labels.length, all, String(width));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await accessible(page, `labels, ${width}`);
    await close(page);
  }
});

test("the tab of changes says where earlier versions are", async () => {
  const page = await open(at({ table: table("Versions"), view: "changes" }));
  await says(page, "table-service-copy history --from ARCHIVE --table Versions", "main");
  await close(page);
});

test("an explorer that only reads offers no change in these views", async () => {
  const page = await open(at({ table: packages("Untouched"), filter: "Maintainer eq 'Ada'" }, reading));
  await says(page, "3,000 read, 5 returned", "#explanation");
  await press(page, "Open p0 0600");
  await named(page, "[aria-label]", "Value of Size");
  const texts = await page.$$eval("button", (all) => all.filter((one) => one.checkVisibility()).map((one) => one.getAttribute("aria-label") ?? one.textContent));
  for (const text of ["Create an index on Maintainer", "Add a property", "Remove Size", "Save"]) assert.ok(!texts.includes(text), text);
  await close(page);
});

test("all tabs of a table can be seen on a small window", async () => {
  const page = await open(at({ table: table("Tabs", employees) }), { width: 390, height: 844 });
  await says(page, "3 entities.", ".pages");
  const [room, needed] = await page.$eval("#tabs", (one) => [one.clientWidth, one.scrollWidth]);
  assert.ok(needed <= room, `${needed} of ${room}`);
  assert.deepEqual(await page.$$eval("#tabs a", (tabs) => tabs.map((one) => one.innerText)), [
    "Entities", "Partitions", "Indexes", "Access", "Changes"]);
  await page.click("#tabs a:nth-child(4)");
  await says(page, "Stored access policies");
  await accessible(page, "policies on a small window");
  await close(page);
});

test("the new views are as accessible in the dark and on a small screen, and no wider", async () => {
  const name = packages("Narrow");
  sql(`SELECT insert_entity('${name}', 'a', '1', '${JSON.stringify(everything)}')`);
  for (const scheme of ["light", "dark"]) {
    for (const place of [{}, { table: name, view: "partitions" }, { table: name, filter: "Maintainer eq 'Ada'" }, { view: "load" }]) {
      const page = await open(undefined, { width: 320 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(at(place));
      await page.waitForSelector(place.table ? (place.view ? "[aria-label=Partitions]" : ".reading meter") : ".plot");
      const what = `${scheme}: ${JSON.stringify(place)}`;
      await accessible(page, what);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), what);
      await close(page);
    }
  }

});
