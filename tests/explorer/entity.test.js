// One entity as people write it: checks, suggestions and saves.
"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const {
  accessible, at, close, employees, field, fill, focused, grid, named, open, press, reading, save, submit, says, sql, start, stop, table,
} = require("./support.js");

before(start);
after(stop);

const typed = {
  Name: "Don Hall", Email: "firstname.lastname@contoso-department.example.com", "Id@odata.type": "Edm.Guid", Id: "c9da6455-213d-42c9-9a79-3e9149a57833",
  "When@odata.type": "Edm.DateTime", When: "2026-01-31T12:00:00.1234567Z", "Long@odata.type": "Edm.Int64", Long: "5", Flag: true,
};
const etagOf = (name) => sql(`SELECT etag("timestamp") FROM get_entity('${name}', 'p', '1')`);
/** The faults in the panel, by property. */
const faults = (page) => page.$$eval("#panel .property", (rows) => Object.fromEntries(rows.filter((row) => row.querySelector(".fault").checkVisibility())
  .map((row) => [row.getAttribute("aria-label"), row.querySelector(".fault").innerText])));

test("without a change nothing is saved, of an entity and of policies", async () => {
  const name = table("Unchanged", [["p", "1", typed]]);
  sql(`SELECT set_access_policies('${name}', '[{"Id":"readers","Permission":"r"}]')`);
  const etag = etagOf(name);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");
  await field(page, "Value of Name");
  const button = () => page.$eval("#panel button.primary", (one) => [one.textContent, one.disabled]);
  assert.deepEqual(await button(), ["Save", true]);
  // An undone change is no change, and other spaces in JSON are none.
  await fill(page, "Value of Name", "other");
  assert.deepEqual(await button(), ["Save 1 change", false]);
  await fill(page, "Value of Name", typed.Name);
  assert.deepEqual(await button(), ["Save", true]);
  await page.keyboard.down("Control");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Control");
  await press(page, "As JSON");
  const json = await (await field(page, "Properties as JSON")).evaluate((one) => one.value);
  assert.deepEqual(await button(), ["Save", true]);
  await fill(page, "Properties as JSON", `${json} `);
  await page.waitForFunction(() => document.querySelector("#panel button.primary").disabled);
  await fill(page, "Properties as JSON", json.replace("Don Hall", "Jun Cao"));
  await says(page, "Save 1 change", "#panel");
  await fill(page, "Properties as JSON", json);
  await page.waitForFunction(() => document.querySelector("#panel button.primary").disabled);
  await press(page, "Close");
  assert.equal(etagOf(name), etag);

  await page.goto(at({ table: name, view: "access" }));
  const isOffered = () => page.$eval("main button.primary", (one) => !one.disabled);
  await named(page, "button", "Remove readers");
  assert.equal(await isOffered(), false);
  await press(page, "Add");
  assert.equal(await isOffered(), true);
  await press(page, "Add");
  assert.equal(await isOffered(), false);
  await press(page, "Add a policy");
  assert.equal(await isOffered(), true);
  await press(page, "Remove the new policy");
  assert.equal(await isOffered(), false);
  await close(page);
});

test("an insert asks before it stores two empty keys", async () => {
  const name = table("Keyless");
  const page = await open(at({ table: name }));
  await press(page, "Insert");
  await page.waitForSelector("#panel button.primary");
  await submit(page);
  await says(page, "Both keys are empty.", "#panel [role=alertdialog]");
  await accessible(page, "empty keys");
  await press(page, "Write the keys");
  assert.equal(sql(`SELECT count_entities('${name}')`), "0");
  // The fault of a key is at the key.
  await fill(page, "RowKey", "a/b");
  await submit(page);
  await says(page, "A key must not contain", "#panel .keys-of-entity .fault");
  assert.equal(await page.$("#panel .problem"), null);
  await fill(page, "RowKey", "");
  assert.equal(await page.$eval("#panel .keys-of-entity", (one) => one.innerText.includes("must not")), false);
  await submit(page);
  await press(page, "Insert it with empty keys");
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT count_entities('${name}')`), "1");
  await close(page);
});

test("values are checked while one types, each at its field, as the database sees them", async () => {
  const name = table("Checked", [["p", "1", typed]]);
  const etag = etagOf(name);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");
  await fill(page, "Value of When", "yesterday");
  await fill(page, "Value of Long", "99999999999999999999");
  await fill(page, "Value of Id", "none");
  await says(page, "3 values cannot be stored", "#panel");
  assert.deepEqual(await faults(page), {
    Id: 'The value of "Id" is no Edm.Guid. Write it like c9da6455-213d-42c9-9a79-3e9149a57833.',
    Long: 'The value of "Long" is no Edm.Int64. It is a whole number from −9223372036854775808 to 9223372036854775807.',
    When: 'The value of "When" is no Edm.DateTime. Write it like 2026-01-31T12:00:00Z.',
  });
  const wrong = await field(page, "Value of When");
  assert.deepEqual(await wrong.evaluate((one) => [one.getAttribute("aria-invalid"), document.getElementById(one.getAttribute("aria-describedby")).innerText]),
    ["true", (await faults(page)).When]);
  await accessible(page, "wrong values");
  // A save goes to the first of them, and says nothing elsewhere.
  await save(page);
  await focused(page, "[aria-label='Value of Id']");
  assert.equal(await page.$("#panel .problem"), null);
  assert.equal(etagOf(name), etag);
  await fill(page, "Value of When", "2027-01-31T12:00:00Z");
  await press(page, "Undo the change of Id");
  await press(page, "Remove Long");
  await page.waitForFunction(() => ![...document.querySelectorAll("#panel .fault")].some((one) => one.checkVisibility()));
  await says(page, "Save 2 changes", "#panel");
  // A wrong name is also marked.
  await press(page, "Add a property");
  const type = (text) => page.$$eval(".property", (rows, text) => {
    const input = rows.at(-1).querySelector("input");
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }, text);
  for (const [text, fault] of [["1st", "is no property name"], ["Name", "The property Name is there twice."], ["Timestamp", "A property cannot have the name Timestamp."]]) {
    await type(text);
    await says(page, fault, "#panel .fault");
    assert.equal(await page.$$eval(".property", (rows) => rows.at(-1).querySelector("input").getAttribute("aria-invalid")), "true");
  }
  await type("More");
  await says(page, "Save 3 changes", "#panel");
  await save(page);
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties ->> 'When', properties ->> 'More', properties ? 'Long' FROM get_entity('${name}', 'p', '1')`), "2027-01-31T12:00:00Z||f");
  await close(page);
});

test("JSON is checked while one types, below it", async () => {
  const name = table("CheckedJson", [["p", "1", { Age: 1 }]]);
  const page = await open(at({ table: name }));
  await press(page, "Open p 1");
  await field(page, "Value of Age");
  await press(page, "As JSON");
  await fill(page, "Properties as JSON", '{"Age": 1, "When@odata.type": "Edm.DateTime", "When": "yesterday"}');
  await says(page, 'The value of "When" is no Edm.DateTime.', "#panel .editor > .fault");
  await accessible(page, "wrong JSON");
  await save(page);
  await focused(page, "[aria-label='Properties as JSON']");
  assert.equal(await page.$("#panel .problem"), null);
  await fill(page, "Properties as JSON", '{"Age": 1,');
  await page.waitForFunction(() => !document.querySelector("#panel .editor > .fault").innerText.includes("When"));
  await fill(page, "Properties as JSON", '{"Age": 2, "More": true}');
  await says(page, "Save 2 changes", "#panel");
  await save(page);
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'p', '1')`), '{"Age":2,"More":true}');
  await close(page);
});

test("columns that most entities have come first, Timestamp last, and a Guid, a moment and a mail address fit", async () => {
  const rare = { About: "rare", ...typed };
  const name = table("Ordered", [["p", "1", rare], ["p", "2", typed], ["p", "3", { Name: "x", Email: "y" }]]);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const heads = async () => (await grid(page))[0].slice(1).map((text) => text.split(/\s/)[0]);
  const expected = ["PartitionKey", "RowKey", "Email", "Name", "Flag", "Id", "Long", "When", "About", "Timestamp"];
  assert.deepEqual(await heads(), expected);
  // The order stays while one looks at other entities of the table.
  await fill(page, "Filter", "RowKey eq '1'");
  await press(page, "Run");
  await says(page, "1 entity.", ".pages");
  assert.deepEqual(await heads(), expected);
  const cut = (titles) => page.$$eval(".grid tbody td", (cells, titles) => cells.filter((one) => titles.includes(one.title) && one.scrollWidth > one.clientWidth)
    .map((one) => one.title), titles);
  assert.deepEqual(await cut([typed.Id, typed.When]), []);
  for (const width of [1280, 390]) {
    await page.setViewport({ width, height: 800 });
    await press(page, "Open p 1");
    // One line each.
    for (const property of ["Id", "When", "Email"]) {
      const value = await field(page, `Value of ${property}`);
      const [height, needed, room] = await value.evaluate((one) => [one.offsetHeight, one.scrollWidth, one.clientWidth]);
      assert.ok(height <= 26, `${property}, ${width}: ${height}`);
      if (property !== "Email") assert.ok(needed <= room, `${property}, ${width}: ${needed} of ${room}`);
    }
    await press(page, "Close");
  }
  await close(page);
});

test("an insert offers the properties of the table with their types, and stores those that one sets", async () => {
  const name = table("Offered", [["p", "1", typed], ["p", "2", { Name: "x" }]]);
  const page = await open(at({ table: name }));
  await says(page, "2 entities.", ".pages");
  await press(page, "Insert");
  await page.waitForSelector("#panel .property");
  const rows = await page.$$eval("#panel .property", (all) => all.map((row) => [row.querySelector("input").value, row.querySelector("select").value, row.dataset.state]));
  assert.deepEqual(rows, [["Name", "String"], ["Email", "String"], ["Flag", "Boolean"], ["Id", "Guid"], ["Long", "Int64"], ["When", "DateTime"]]
    .map(([property, type]) => [property, `Edm.${type}`, "offered"]));
  await accessible(page, "what an insert offers");
  await fill(page, "PartitionKey", "p");
  await fill(page, "RowKey", "3");
  await fill(page, "Value of Long", "7");
  await (await named(page, "[role=switch]", "Value of Flag")).evaluate((one) => one.click());
  await fill(page, "Value of Email", "x");
  await press(page, "Undo the change of Email");
  await says(page, "Insert with 2 properties", "#panel");
  await submit(page);
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties FROM get_entity('${name}', 'p', '3')`), '{"Flag":true,"Long@odata.type":"Edm.Int64","Long":"7"}');
  await close(page);
});

test("a reader sees values, and no switch that could be moved", async () => {
  const page = await open(at({ table: table("Seen", [["p", "1", typed]]) }, reading));
  await press(page, "Open p 1");
  const value = await field(page, "Value of Flag");
  assert.deepEqual(await value.evaluate((one) => [one.value, one.readOnly]), ["true", true]);
  assert.equal(await page.$("#panel [role=switch]"), null);
  await close(page);
});

test("when the gateway is away the rows stay, greyed, with since when, and come back by themselves", async () => {
  const name = table("Away", employees);
  const page = await open(at({ table: name }), { expected: [/ERR_INTERNET_DISCONNECTED/] });
  await says(page, "3 entities.", ".pages");
  await page.setOfflineMode(true);
  await fill(page, "Filter", "Age gt 30");
  await press(page, "Run");
  await page.waitForFunction(() => /No answer from the gateway since \d\d:\d\d:\d\d\./.test(document.getElementById("away").innerText));
  await says(page, "NoAnswer", "#view .problem");
  assert.equal((await grid(page)).length, 4, "what was read stays");
  assert.notEqual(await page.$eval("#view .view", (one) => getComputedStyle(one).filter), "none");
  await accessible(page, "a gateway that is away");
  await page.setOfflineMode(false);
  await says(page, "2 entities.", ".pages");
  assert.equal(await page.$eval("#away", (one) => one.checkVisibility()), false);
  assert.equal(await page.$(".problem"), null);
  await close(page);
});

test("on a small window the keys stay while the rest scrolls", async () => {
  const wide = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`Property${index}`, index]));
  const name = table("KeysStay", [["partition-with-a-long-name", "row-with-a-long-name", wide]]);
  const page = await open(at({ table: name }), { width: 390, height: 844 });
  await says(page, "1 entity.", ".pages");
  const places = () => page.$$eval(".grid tbody td.key", (cells) => cells.map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right]));
  await page.$eval(".grid", (one) => one.scrollTo(600, 0));
  await page.waitForFunction(() => document.querySelector(".grid").scrollLeft === 600);
  const [[first], [second, right]] = await places();
  assert.ok(first >= 0 && second > first && right < 240, `${first} ${second} ${right}`);
  await close(page);
});

test("the menu of a head says in which order rows are, and ? shows the keys", async () => {
  const page = await open(at({ table: table("Sorting", employees) }));
  await says(page, "3 entities.", ".pages");
  await page.click(".grid th[title=Name]");
  await says(page, "Rows are in the order of their keys. The service has no other order.", ".menu:popover-open");
  await page.keyboard.press("Escape");
  await page.keyboard.type("?");
  await says(page, "edits the value of the cell", "dialog");
  await accessible(page, "the keys");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  // Where one types it is a character.
  await page.focus("#filter");
  await page.keyboard.type("?");
  assert.equal(await page.$("dialog"), null);
  await press(page, "? Keys");
  await says(page, "edits the value of the cell", "dialog");
  await close(page);
});
