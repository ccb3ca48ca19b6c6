// The grid of entities, its filter, and the page as a whole, as people use them.
"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const {
  accessible, at, close, employees, files, fill, focused, grid, holding, named, open, origin, press, reading, says, sql, start, stop, table, tickColumn, visible, withModule, writing,
} = require("./support.js");

before(start);
after(stop);

// --- The grid -----------------------------------------------------------------------------------------------------------------

/** A table with many rows and columns. */
function wide(name, rows, columns) {
  table(name);
  sql(`SELECT count(insert_entity('${name}', 'partition', to_char(i, 'FM0000'), (
    SELECT json_object_agg('Column' || to_char(c, 'FM00'), i * c) FROM generate_series(1, ${columns}) AS c)::text::properties))
    FROM generate_series(1, ${rows}) AS i`);
  return name;
}

test("head, check boxes and keys stand still while the rest scrolls, and rows have one height", async () => {
  const name = wide("Scrolled", 60, 30);
  sql(`SELECT insert_entity('${name}', 'partition', '0000', '{"Column01": "a\\nb\\nc", "Column02": "${"long ".repeat(100)}"}')`);
  const page = await open(at({ table: name }));
  await says(page, "61 entities.", ".pages");
  const places = () => page.evaluate(() => {
    const left = (selector) => document.querySelector(selector).getBoundingClientRect().left;
    const [check, first, second, other] = ["td:nth-child(1)", "td:nth-child(2)", "td:nth-child(3)", "td:nth-child(6)"]
      .map((cell) => left(`.grid tbody tr:nth-child(20) ${cell}`));
    return { check, first, second, other, head: document.querySelector(".grid th").getBoundingClientRect().top,
      pager: document.querySelector(".pages").getBoundingClientRect().top };
  });
  const before = await places();
  await page.$eval(".grid", (one) => one.scrollTo(500, 300));
  await page.waitForFunction(() => document.querySelector(".grid").scrollLeft === 500);
  const { other, ...still } = await places();
  assert.equal(other, before.other - 500, "the rest scrolls");
  assert.deepEqual({ ...still, other: before.other }, before);
  const heights = await page.$$eval(".grid tr", (rows) => rows.map((row) => row.offsetHeight));
  assert.deepEqual([...new Set(heights)], [28]);
  assert.ok(await page.evaluate(() => document.querySelector("main").scrollHeight <= innerHeight), "the page itself does not scroll");
  await close(page);
});

test("a page can have 1,000 entities, which is remembered, and only rows that can be seen are elements", async () => {
  const name = wide("Thousand", 1200, 10);
  const page = await open(at({ table: name }));
  await says(page, "100 entities, and there are more.", ".pages");
  await page.select("[aria-label='Entities of a page']", "1000");
  await says(page, "1,000 entities, and there are more.", ".pages");
  await page.reload();
  await says(page, "1,000 entities, and there are more.", ".pages");
  const rows = () => page.$$eval(".grid tbody tr", (all) => all.length);
  assert.ok(await rows() < 100, "few rows are there");
  await page.$eval(".grid", (one) => { one.scrollTop = one.scrollHeight; });
  await named(page, "button", "Open partition 1000");
  assert.ok(await rows() < 100, "few rows are there at the end");
  // Ticked entities stay ticked where they cannot be seen.
  await page.click("[aria-label='Select partition 1000']");
  await page.$eval(".grid", (one) => { one.scrollTop = 0; });
  await named(page, "button", "Open partition 0001");
  await says(page, "1 selected", ".selection");
  await page.keyboard.down("Shift");
  await page.click("[aria-label='Select partition 0003']");
  await page.keyboard.up("Shift");
  await says(page, "998 selected", ".selection");
  await press(page, "Select none");
  assert.equal(await page.$eval(".selection", (one) => one.checkVisibility()), false);
  await close(page);
});

test("columns are as wide as their content up to a limit, and as a user drags them, which is remembered", async () => {
  const name = table("Widths", [["p", "1", { Short: 1, Text: "w".repeat(200) }]]);
  const page = await open(at({ table: name }));
  await says(page, "1 entity.", ".pages");
  const width = (title) => page.$eval(`.grid th[title=${title}]`, (one) => one.offsetWidth);
  assert.equal(await width("Text"), 320);
  const before = await width("Short");
  assert.ok(before < 140, String(before));
  const { x, y, height } = await (await page.$(".grid th[title=Short] .width")).boundingBox();
  await page.mouse.move(x + 3, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + 63, y + height / 2);
  await page.mouse.up();
  assert.equal(await width("Short"), before + 60);
  // By keyboard.
  await page.focus("button.open");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.down("Shift");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.up("Shift");
  assert.equal(await width("Text"), 304);
  await page.reload();
  await says(page, "1 entity.", ".pages");
  assert.deepEqual([await width("Short"), await width("Text")], [before + 60, 304]);
  await close(page);
});

test("columns are chosen and ordered; the address says which, and the browser remembers", async () => {
  const name = table("Chosen", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const heads = async () => (await grid(page))[0].slice(3, -1).map((text) => text.split(/\s/)[0]);
  await press(page, "Columns");
  await accessible(page, "the choice of columns");
  await tickColumn(page, "Id");
  assert.deepEqual(await heads(), ["Age", "Name", "Salary"]);
  await page.$eval("[aria-label='Move Name up']", (one) => one.click());
  await page.$eval("[aria-label='Move Name up']", (one) => one.click());
  assert.deepEqual(await heads(), ["Name", "Age", "Salary"]);
  assert.equal(new URLSearchParams(new URL(page.url()).hash.slice(1)).get("select"), "Name,Age,Salary");
  const address = page.url();
  await page.goto("about:blank");
  await page.goto(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  assert.deepEqual(await heads(), ["Name", "Age", "Salary"]);
  await close(page);
  // A colleague sees the columns that the address names, and can have more.
  const colleague = await open(writing);
  await says(colleague, "Connect a program");
  await colleague.goto(address);
  await says(colleague, "3 entities.", ".pages");
  const others = async () => (await grid(colleague))[0].slice(3, -1).map((text) => text.split(/\s/)[0]);
  assert.deepEqual(await others(), ["Name", "Age", "Salary"]);
  await press(colleague, "Columns");
  await press(colleague, "Show all");
  await colleague.waitForFunction(() => document.querySelector(".grid th[title=Id]"));
  assert.deepEqual(await others(), ["Name", "Age", "Salary", "Id"]);
  await close(colleague);
});

test("the head of a column has a menu, which hides, moves, and begins a filter", async () => {
  const name = table("Heads", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const heads = async () => (await grid(page))[0].slice(3, -1).map((text) => text.split(/\s/)[0]);
  await page.click(".grid th[title=Name]");
  await accessible(page, "the menu of a column");
  await press(page, "Move to the left");
  assert.deepEqual(await heads(), ["Name", "Age", "Salary", "Id"]);
  // By keyboard: the column that has moved has the focus.
  await focused(page, "[title='Name']");
  await page.keyboard.press("Enter");
  await press(page, "Hide Name");
  assert.deepEqual(await heads(), ["Age", "Salary", "Id"]);
  await page.click(".grid th[title=RowKey]");
  assert.equal(await visible(page, "Hide RowKey"), false, "the keys are always there");
  await press(page, "Filter by RowKey");
  await focused(page, "#filter");
  await page.keyboard.type("eq '00001'");
  await page.keyboard.press("Enter");
  await says(page, "1 entity.", ".pages");
  await close(page);
});

test("a column is dragged by its head to the place of another", async () => {
  const name = table("Dragged", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const heads = async () => (await grid(page))[0].slice(3, -1).map((text) => text.split(/\s/)[0]);
  const drag = async (from, to) => {
    const middle = async (title) => {
      const { x, y, width, height } = await (await page.$(`.grid th[title=${title}]`)).boundingBox();
      return [x + width / 2, y + height / 2];
    };
    await page.mouse.move(...await middle(from));
    await page.mouse.down();
    const [x, y] = await middle(to);
    await page.mouse.move(x, y, { steps: 4 });
    // A browser tells where something is dragged to from time to time, and drops it there.
    for (let step = 0; step < 100 && !await page.$(`.grid th.over[title=${to}]`); step += 1) {
      await page.mouse.move(x + step % 2, y);
      await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
    await page.mouse.up();
  };
  await drag("Salary", "Age");
  await page.waitForFunction(() => document.querySelector(".grid th:nth-child(4)").title === "Salary");
  assert.deepEqual(await heads(), ["Salary", "Age", "Name", "Id"]);
  await drag("Salary", "Id");
  await page.waitForFunction(() => document.querySelector(".grid th:nth-child(4)").title === "Age");
  assert.deepEqual(await heads(), ["Age", "Name", "Id", "Salary"]);
  assert.equal(await page.$(":popover-open"), null, "no menu opens");
  // The keys stay where they are.
  await drag("Name", "RowKey");
  assert.deepEqual(await heads(), ["Age", "Name", "Id", "Salary"]);
  await page.reload();
  await says(page, "3 entities.", ".pages");
  assert.deepEqual(await heads(), ["Age", "Name", "Id", "Salary"]);
  await close(page);
});

test("a Timestamp is short and local, and whole on hover", async () => {
  const name = table("Moments", [["p", "1", {}]]);
  const page = await open(at({ table: name }));
  await says(page, "1 entity.", ".pages");
  await page.emulateTimezone("Asia/Kathmandu");
  await page.reload();
  await says(page, "1 entity.", ".pages");
  const [title, shown] = await page.$eval(".grid tbody td:nth-child(4)", (one) => [one.title, one.innerText]);
  const expected = sql(`SELECT to_char("timestamp" AT TIME ZONE 'Asia/Kathmandu', 'YYYY-MM-DD HH24:MI:SS') FROM query_entities('${name}')`);
  assert.equal(title, sql(`SELECT to_char("timestamp" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') FROM query_entities('${name}')`));
  assert.equal(shown, expected);
  await close(page);
});

test("the row of the open entity is marked, and a page that is read again stays where it was", async () => {
  const name = wide("Marked", 100, 3);
  const page = await open(at({ table: name }));
  await says(page, "100 entities.", ".pages");
  await page.$eval(".grid", (one) => { one.scrollTop = 1200; });
  await press(page, "Open partition 0050");
  await page.waitForSelector("#panel:not([hidden])");
  const marked = () => page.$$eval(".grid tr[aria-current]", (rows) => rows.map((row) => row.children[2].innerText));
  await page.waitForFunction(() => document.querySelector(".grid tr[aria-current]"));
  assert.deepEqual(await marked(), ["0050"]);
  await page.keyboard.press("Escape");
  assert.deepEqual(await marked(), []);
  await fill(page, "Filter", "");
  await page.evaluate(() => dispatchEvent(new HashChangeEvent("hashchange")));
  await page.waitForFunction(() => document.querySelectorAll(".grid").length === 1 && !document.querySelector(".grid[inert]"));
  assert.equal(await page.$eval(".grid", (one) => one.scrollTop), 1200);
  await close(page);
});

test("keys and values are copied with a key, the whole of a value that is cut too", async () => {
  const long = "x".repeat(300);
  const name = table("Clipped", [["p", "1", { Text: long, Number: 5 }], ["p", "2", {}]]);
  const page = await open();
  await page.browserContext().overridePermissions(origin, ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"]);
  await page.goto(at({ table: name }));
  await says(page, "2 entities.", ".pages");
  const copied = async (wanted) => {
    await says(page, "copied.", "#status");
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), wanted);
    await page.evaluate(() => { document.getElementById("status").textContent = ""; });
  };
  await page.focus("button.open");
  await page.keyboard.press("k");
  await copied("p\t1");
  for (let step = 0; step < 2; step += 1) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("c");
  await copied("5");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.down("Control");
  await page.keyboard.press("c");
  await page.keyboard.up("Control");
  await copied(long);
  await page.click("[aria-label='Select all']");
  await press(page, "Copy keys");
  await copied("p\t1\np\t2");
  await close(page);
});

// --- A value edited at its cell -----------------------------------------------------------------------------------------------

const cellOf = (row, name) => `.grid tbody tr:nth-child(${row}) td:nth-child(${{ Name: 4, Age: 5, Flag: 6, When: 7 }[name]})`;
const people = [
  ["p", "1", { Name: "Ada", Age: 36, Flag: true, "When@odata.type": "Edm.DateTime", When: "2026-01-31T12:00:00.1234567Z" }],
  ["p", "2", { Name: `long ${"x".repeat(400)}` }],
];

test("a value is edited at its cell, by two clicks or by F2, and the rest of the entity stays", async () => {
  const name = table("CellValues", people);
  const stored = (row) => JSON.parse(sql(`SELECT properties FROM get_entity('${name}', 'p', '${row}')`));
  const page = await open(at({ table: name }));
  await says(page, "2 entities.", ".pages");
  await page.click(cellOf(1, "Age"), { count: 2 });
  await page.waitForSelector("dialog[open]");
  assert.equal(await page.$(":popover-open"), null, "the menu of one click is gone");
  await accessible(page, "a cell that is edited");
  // A text that is no number is refused, there.
  await page.keyboard.type("old");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .fault:not([hidden])");
  assert.equal(await page.$("#view .problem"), null);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  assert.equal(stored(1).Age, 36);
  await page.click(cellOf(1, "Age"), { count: 2 });
  await page.waitForSelector("dialog[open]");
  await page.keyboard.type("37");
  await page.keyboard.press("Enter");
  await says(page, "Saved.", "#status");
  await page.waitForFunction((cell) => document.querySelector(cell)?.innerText === "37", {}, cellOf(1, "Age"));
  assert.deepEqual(stored(1), { ...people[0][2], Age: 37 });
  // The cell has the focus again: so a row can be edited by keyboard alone.
  await page.waitForFunction((cell) => document.activeElement === document.querySelector(cell), {}, cellOf(1, "Age"));
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("F2");
  await page.waitForSelector("dialog[open] [role=switch]");
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  await page.waitForFunction((cell) => document.querySelector(cell)?.innerText === "false", {}, cellOf(1, "Flag"));
  assert.equal(stored(1).Flag, false);
  // A value that the page cuts is whole, and one that is not there gets the type of its column.
  await focused(page, "td");
  await page.focus(cellOf(2, "Name"));
  await page.keyboard.press("F2");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("End");
  await page.keyboard.type("y");
  await page.keyboard.press("Enter");
  await says(page, "Saved.", "#status");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  assert.equal(stored(2).Name, `${people[1][2].Name}y`);
  await page.waitForFunction((cell) => document.activeElement === document.querySelector(cell), {}, cellOf(2, "Name"));
  await page.focus(cellOf(2, "Age"));
  await page.keyboard.press("F2");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.type("5");
  await page.keyboard.press("Enter");
  await page.waitForFunction((cell) => document.querySelector(cell)?.innerText === "5", {}, cellOf(2, "Age"));
  assert.equal(stored(2).Age, 5);
  // Nothing is written where nothing is changed, and the keys are no values.
  const etag = sql(`SELECT etag("timestamp") FROM get_entity('${name}', 'p', '2')`);
  await page.waitForFunction((cell) => document.activeElement === document.querySelector(cell), {}, cellOf(2, "Age"));
  await page.keyboard.press("F2");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  assert.equal(sql(`SELECT etag("timestamp") FROM get_entity('${name}', 'p', '2')`), etag);
  await page.focus(".grid tbody td:nth-child(3)");
  await page.keyboard.press("F2");
  assert.equal(await page.$("dialog"), null);
  await close(page);
  const only = await open(at({ table: name }, reading));
  await says(only, "2 entities.", ".pages");
  await only.click(".grid tbody tr:nth-child(1) td:nth-child(4)", { count: 2 });
  await named(only, "[aria-label]", "Value of Age");
  assert.equal(await only.$("dialog"), null, "the entity is opened");
  await close(only);
});

test("a value that somebody else has changed meanwhile is a conflict of the entity", async () => {
  const name = table("CellConflict", people);
  const page = await open(at({ table: name }));
  await says(page, "2 entities.", ".pages");
  await page.click(cellOf(1, "Age"), { count: 2 });
  await page.waitForSelector("dialog[open]");
  sql(`SELECT merge_entity('${name}', 'p', '1', '{"Name": "Lovelace"}', '*')`);
  await page.keyboard.type("37");
  await page.keyboard.press("Enter");
  await says(page, "You and they have changed different properties. Both changes are kept.", "#panel");
  assert.equal(await page.$("dialog"), null);
  await focused(page, "#panel-title");
  await press(page, "Save your change");
  await says(page, "Saved.", "#status");
  assert.equal(sql(`SELECT properties ->> 'Name', properties ->> 'Age' FROM get_entity('${name}', 'p', '1')`), "Lovelace|37");
  // An entity that is open with changes stays open until they are discarded.
  await press(page, "Open p 2");
  await fill(page, "Value of Name", "other");
  await page.click(cellOf(1, "Age"), { count: 2 });
  await says(page, "The entity has changes that are not saved.", "#panel");
  assert.equal(await page.$("dialog"), null);
  await press(page, "Discard");
  await close(page);
});

// --- The filter ---------------------------------------------------------------------------------------------------------------

const filterOf = (page) => page.$eval("#filter", (one) => one.value);

test("the filter completes properties, operators and values, by keyboard alone", async () => {
  const name = table("Completed", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const offered = () => page.$$eval(".completions:popover-open li bdi", (all) => all.map((one) => one.textContent));
  await page.keyboard.press("/");
  await page.keyboard.type("Na");
  assert.deepEqual(await offered(), ["Name"]);
  await accessible(page, "completions");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await filterOf(page), "Name ");
  assert.deepEqual(await offered(), ["eq", "ne", "gt", "ge", "lt", "le"]);
  await page.keyboard.type("eq ");
  assert.deepEqual(await offered(), ["'Don Hall'", "'Jun Cao'", "'Ken Kwok'", "''"]);
  await page.keyboard.type("'Ke");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  assert.equal(await filterOf(page), "Name eq 'Ken Kwok' ");
  assert.deepEqual(await offered(), ["and", "or"]);
  // Escape closes the completions alone; then the arrow leads to the grid.
  await page.keyboard.press("Escape");
  assert.deepEqual(await offered(), []);
  await page.keyboard.press("Enter");
  await says(page, "1 entity.", ".pages");
  await focused(page, "#filter");
  await page.keyboard.press("ArrowDown");
  await focused(page, "[aria-label='Open Sales 00010']");
  await close(page);
});

test("the filter has colours, letter by letter below what one types", async () => {
  const page = await open(at({ table: table("Coloured", employees), filter: "Name eq 'Don''t' and not (Age gt 30)" }));
  await says(page, "0 entities.", ".pages");
  const parts = () => page.$$eval(".filter .marks span", (all) => all.map((one) => [one.className, one.textContent]));
  assert.deepEqual(await parts(), [
    ["name", "Name"], ["word", "eq"], ["string", "'Don''t'"], ["word", "and"], ["word", "not"], ["name", "("], ["name", "Age"], ["word", "gt"],
    ["number", "30"], ["name", ")"],
  ]);
  await page.focus("#filter");
  await page.keyboard.press("End");
  await page.keyboard.type(" or");
  const [text, shown, field, layer] = await page.evaluate(() => [
    document.getElementById("filter").value, document.querySelector(".filter .marks").textContent,
    getComputedStyle(document.getElementById("filter")), getComputedStyle(document.querySelector(".filter .marks")),
  ].map((one) => (typeof one === "string" ? one : [one.fontSize, one.fontFamily, one.letterSpacing, one.paddingLeft].join())));
  assert.deepEqual([shown, layer], [text, field]);
  await close(page);
});

test("the filter knows where it is, and what its literals are", async () => {
  const page = await open(`${origin}/explorer`);
  const found = await withModule(page, "filters.js", ({ and, completions, fault, isUnfinished, literal, tokens }) => {
    const columns = new Map(Object.entries({ Size: { types: new Set(["Int32"]), values: ["5"] }, Ok: { types: new Set(["Boolean"]), values: [] } }));
    const offered = (text) => completions(text, columns).items.map((one) => one.text);
    return {
      offered: ["", "S", "Size", "Size e", "Size eq ", "Size eq 5 ", "(Ok ", "(not Ok eq true ", "Size 5 ", "'a b"].map(offered),
      tokens: tokens("a eq 'it''s' or(b lt -5L)").map((one) => one.text),
      faults: [
        ["Age gx 3", "Syntax error at position 6 in 'Age gx 3'."], ["Age gt", "Syntax error at position 6 in 'Age gt'."],
        [" Age gt 3)", "Syntax error at position 9 in 'Age gt 3)'."], ["a eq 'b", "There is an unterminated string literal at position 7 in 'a eq 'b'."],
        ["a eq guid'x'", "Unrecognized 'Edm.Guid' literal 'guid'x'' at '5' in 'a eq guid'x''."],
        ["a eq #", "Syntax error: character '#' is not valid at position 5 in 'a eq #'."], ["x", "Something else."],
      ].map(([text, message]) => [fault(text, message), Boolean(isUnfinished(text, message))]),
      literals: [["String", "it's"], ["Int32", "5"], ["Int64", "5"], ["Double", "1E+300"], ["Double", "-Infinity"], ["Double", "NaN"], ["Binary", "AP8="],
        ["Guid", "c9da6455-213d-42c9-9a79-3e9149a57833"], ["DateTime", "2026-01-31T12:00:00Z"], ["Boolean", "true"]].map(([type, value]) => literal(type, value)),
      and: [and("", "c"), and("a", "c"), and("a or b", "c"), and("a eq 'or'", "c")],
    };
  });
  assert.deepEqual(found, {
    offered: [["Size", "Ok", "not"], ["Size"], [], ["eq"], ["5"], ["and", "or"], ["eq", "ne", "gt", "ge", "lt", "le", "and", "or"],
      ["and", "or", ")"], [], []],
    tokens: ["a", "eq", "'it''s'", "or", "(", "b", "lt", "-5L", ")"],
    faults: [[[4, 6], false], [[6, 6], true], [[9, 10], false], [[5, 7], true], [[5, 12], false], [[5, 6], false], [null, false]],
    literals: ["'it''s'", "5", "5L", "1E+300", "-INF", null, "X'00ff'", "guid'c9da6455-213d-42c9-9a79-3e9149a57833'", "datetime'2026-01-31T12:00:00Z'", "true"],
    and: ["c", "a and c", "(a or b) and c", "a eq 'or' and c"],
  });
  await close(page);
});

test("an error of the filter is shown once, at the filter, with its place and what could stand there", async () => {
  const name = table("Mistaken", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  await page.focus("#filter");
  // A filter that one still types is only unfinished.
  await page.keyboard.type("Age gt");
  await says(page, "Not finished. Expected there: a property or a literal", "#explanation");
  assert.equal(await page.$(".problem"), null);
  await page.keyboard.type(" 3 und Name eq 'x'");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#filter[aria-invalid=true]");
  await says(page, "InvalidInput: Syntax error at position 12", "#explanation .problem");
  await says(page, "Expected there: and, or or the end of the filter.", "#explanation .problem");
  assert.equal(await page.$eval(".filter mark", (one) => one.textContent), "und");
  assert.equal((await page.$$(".problem")).length, 1);
  assert.equal(await visible(page, "Try again"), false, "a refused filter is refused again");
  await accessible(page, "an error of the filter");
  await page.focus("#filter");
  await page.keyboard.press("End");
  await page.keyboard.type(" ");
  assert.equal(await page.$(".filter mark"), null);
  await close(page);
});

test("a cell adds its value to the filter, by its menu or by a key, for every type", async () => {
  const values = {
    S: "it's", I: -5, "L@odata.type": "Edm.Int64", L: "9007199254740993", D: 1e300, B: false, "T@odata.type": "Edm.DateTime", T: "2026-01-31T12:00:00.1234567Z",
    "G@odata.type": "Edm.Guid", G: "c9da6455-213d-42c9-9a79-3e9149a57833", "X@odata.type": "Edm.Binary", X: "AAEC",
  };
  const name = table("Added", [["p", "1", values], ["p", "2", { Cut: "x".repeat(300) }]]);
  const page = await open(at({ table: name, filter: "RowKey lt '2' or RowKey gt '5'" }));
  await says(page, "1 entity.", ".pages");
  await page.waitForSelector("#explanation > *");
  const columns = await page.$$eval(".grid th", (all) => all.map((one) => one.title));
  for (const column of columns.filter((one) => one !== "PartitionKey")) {
    await page.click(`.grid tbody tr td:nth-child(${columns.indexOf(column) + 2})`);
    await page.waitForFunction((column) => document.querySelector(".menu:popover-open")?.innerText.includes(`${column} eq `), {}, column);
    if (column === "S") await accessible(page, "the menu of a cell");
    await page.$eval(".menu:popover-open button", (one) => one.click());
    await page.waitForFunction((column) => document.querySelector("#filter").value.startsWith("(RowKey lt '2' or RowKey gt '5') and ")
      && document.querySelector("#filter").value.includes(`${column} eq `), {}, column);
    await says(page, "1 entity.", ".pages");
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("#filter").value === "RowKey lt '2' or RowKey gt '5'");
    await says(page, "1 entity.", ".pages");
    await page.waitForFunction(() => !document.querySelector(".grid[inert]"));
  }
  await page.goto(at({ table: name }));
  await says(page, "2 entities.", ".pages");
  await page.focus("button.open");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press(">");
  await page.waitForFunction(() => document.querySelector("#filter").value === "RowKey ge '1'");
  await says(page, "2 entities.", ".pages");
  // A value that is cut is none to compare with.
  await page.waitForFunction(() => !document.querySelector(".grid[inert]"));
  const cut = await page.$$eval(".grid th", (all) => all.findIndex((one) => one.title === "Cut"));
  await page.click(`.grid tbody tr:nth-child(2) td:nth-child(${cut + 2})`);
  await page.waitForFunction(() => document.querySelector(".menu:popover-open")?.innerText.includes("Copy the value"));
  assert.ok(!(await page.$eval(".menu:popover-open", (one) => one.innerText)).includes("Cut eq"));
  await close(page);
});

test("filters that were run are offered again, and can be saved", async () => {
  const name = table("Before", employees);
  const page = await open(at({ table: name }));
  for (const filter of ["Age gt 30", "Name eq 'Ken Kwok'"]) {
    await fill(page, "Filter", filter);
    await press(page, "Run");
    await page.waitForFunction((filter) => new URLSearchParams(location.hash.slice(1)).get("filter") === filter, {}, filter);
    await says(page, filter.startsWith("Age") ? "2 entities." : "1 entity.", ".pages");
  }
  await press(page, "Earlier filters");
  await accessible(page, "earlier filters");
  assert.deepEqual(await page.$$eval(".history li bdi", (all) => all.map((one) => one.textContent)), ["Name eq 'Ken Kwok'", "Age gt 30"]);
  await press(page, "Save this filter");
  await says(page, "Saved", ".history h2");
  await page.keyboard.press("Escape");
  await page.reload();
  await says(page, "1 entity.", ".pages");
  await press(page, "Earlier filters");
  await press(page, "Run Age gt 30");
  await says(page, "2 entities.", ".pages");
  await press(page, "Earlier filters");
  const own = await page.$$eval(".history ul", (lists) => lists.map((list) => [...list.querySelectorAll("bdi")].map((one) => one.textContent)));
  assert.deepEqual(own, [["Name eq 'Ken Kwok'"], ["Age gt 30"]]);
  // Another table has its own.
  await page.goto(at({ table: table("Before2", employees) }));
  await says(page, "3 entities.", ".pages");
  await press(page, "Earlier filters");
  await says(page, "The filters that you run on this table stand here.", ".history");
  await close(page);
});

test("a filter that finds nothing says why, if the table shows it", async () => {
  const name = table("Nothing", employees);
  const page = await open(at({ table: name, filter: "Age eq '34'" }));
  await says(page, "Age is an Int32 here; write 34, not '34'.", ".nothing");
  await press(page, "Run it so");
  await says(page, "1 entity.", ".pages");
  for (const [filter, reason] of [
    ["Nmae eq 'Don Hall'", "No entity on the first page of the table has Nmae; there is Name."],
    ["Unheard eq 1", "No entity on the first page of the table has Unheard."],
    ["Age eq 34L", "Age is an Int32 here; write 34, not 34L."],
    ["Id eq '9007199254740993'", "Id is an Int64 here; write 9007199254740993L, not '9007199254740993'."],
    ["PartitionKey eq 5", "PartitionKey is a String here; write '5', not 5."],
    ["Salary eq 'much'", "Salary is a Double here, and 'much' is none."],
  ]) {
    await page.goto(at({ table: name, filter }));
    await says(page, reason, ".nothing");
  }
  // Entities that are only not there need no reason.
  await page.goto(at({ table: name, filter: "Id eq 5 and Salary gt 1" }));
  await says(page, "No entities.", ".nothing");
  assert.equal(await page.$eval(".nothing", (one) => one.innerText), "No entities.");
  await close(page);
});

test("an empty table offers what one can do with it", async () => {
  const name = table("EmptyOne");
  const page = await open(at({ table: name }));
  await says(page, "No entities.", ".nothing");
  await accessible(page, "an empty table");
  await press(page, "Import a file");
  await says(page, "Import", "#panel-title");
  await press(page, "Insert an entity");
  await says(page, "Insert an entity", "#panel-title");
  await close(page);
  const only = await open(at({ table: name }, reading));
  await says(only, "No entities.", ".nothing");
  assert.equal(await visible(only, "Insert an entity"), false);
  await close(only);
});

// --- The page as a whole ------------------------------------------------------------------------------------------------------

test("on a small window the first row is near the top, and the tables are a drawer", async () => {
  const name = table("Small", employees);
  const page = await open(at({ table: name, filter: "Age gt 20" }), { width: 390, height: 844 });
  await says(page, "3 entities.", ".pages");
  await page.waitForSelector("#explanation > *");
  const top = await page.$eval(".grid tbody tr", (one) => one.getBoundingClientRect().top);
  assert.ok(top <= 320, `the first row begins at ${top}`);
  assert.equal(await page.$eval("#tables", (one) => one.checkVisibility()), false);
  await page.waitForSelector("#tables input");
  await press(page, "Tables");
  await says(page, "Small", "#tables");
  await focused(page, "#tables input");
  await accessible(page, "the drawer");
  await page.keyboard.press("Escape");
  assert.equal(await page.$eval("#tables", (one) => one.checkVisibility()), false);
  await focused(page, "#tables-button");
  await press(page, "Tables");
  await page.$eval(`#tables a[data-table=${name}]`, (one) => one.click());
  await page.waitForFunction(() => !document.body.classList.contains("with-tables"));
  await close(page);
});

test("nothing moves for longer than 150 ms, and nothing at all where the system asks for that", async () => {
  const name = table("Still", employees);
  const page = await open(at({ table: name }));
  await says(page, "3 entities.", ".pages");
  const longest = () => page.$$eval("*", (all) => Math.max(...all.flatMap((one) => {
    const { transitionDuration, animationDuration } = getComputedStyle(one);
    return [...transitionDuration.split(","), ...animationDuration.split(",")].map(Number.parseFloat);
  })));
  const moves = await longest();
  assert.ok(moves > 0 && moves <= 0.15, String(moves));
  await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
  assert.equal(await longest(), 0);
  await close(page);
});

/** The requests of a page to the gateway while something is done, with their weight. */
async function requests(page, action) {
  const session = await page.createCDPSession();
  await session.send("Network.enable");
  const asked = [];
  let weight = 0;
  const cached = new Set();
  session.on("Network.requestServedFromCache", ({ requestId }) => cached.add(requestId));
  session.on("Network.responseReceived", ({ requestId, response }) => {
    if (!response.fromDiskCache && !cached.has(requestId)) asked.push(new URL(response.url).pathname);
  });
  session.on("Network.loadingFinished", ({ encodedDataLength }) => { weight += encodedDataLength; });
  await action();
  await session.detach();
  return { asked: asked.filter((path) => !path.startsWith("/explorer/api") && path !== "/metrics"), weight };
}

test("the page is modules of at most 200 kB, each asked for once, and a page that is loaded again asks only for itself", async () => {
  const page = await open();
  // The views and the editors that nobody has asked for are loaded later.
  const isWhole = () => page.waitForFunction(async () => {
    const loaded = performance.getEntriesByType("resource").map((one) => one.name).filter((name) => name.endsWith(".js"));
    // A module is there before those that it imports.
    await Promise.all(loaded.map((name) => import(name)));
    return ["edits.js", "keys.js", "design.js", "home.js"].every((last) => loaded.some((name) => name.endsWith(`/${last}`)));
  });
  const first = await requests(page, async () => {
    await page.goto(writing);
    await says(page, "Connect a program");
    await isWhole();
  });
  const asked = first.asked.filter((path) => !path.endsWith("icon.svg"));
  assert.deepEqual([...new Set(asked)].sort(), [...asked].sort());
  const named = (await files()).filter((path) => !path.endsWith("icon.svg"));
  assert.ok(named.length > 10 && named.every((path) => asked.includes(path)), String(asked));
  // Browsers get the modules as they are.
  const versions = new Set(asked.filter((path) => path !== "/explorer").map((path) => path.split("/").slice(0, 3).join("/")));
  assert.equal(versions.size, 1);
  assert.ok(first.weight > 10_000 && first.weight <= 200_000, String(first.weight));
  const second = await requests(page, async () => {
    await page.reload();
    await says(page, "Connect a program");
    await isWhole();
  });
  assert.deepEqual(second.asked.filter((path) => !path.endsWith("icon.svg")), ["/explorer"]);
  await close(page);
});

test("a file whose name says what is in it is kept; the page itself is asked for, with a tag", async () => {
  for (const path of await files()) {
    const { headers } = await fetch(origin + path);
    assert.deepEqual([headers.get("cache-control"), headers.get("content-encoding")], ["max-age=31536000, immutable", "gzip"]);
  }
  const path = `${origin}/explorer`;
  const first = await fetch(path);
  assert.deepEqual([first.headers.get("cache-control"), first.headers.get("content-encoding")], ["no-cache", "gzip"]);
  const text = await first.text();
  const plain = await fetch(path, { headers: { "Accept-Encoding": "identity" } });
  assert.deepEqual([plain.headers.get("content-encoding"), await plain.text()], [null, text]);
  const same = await fetch(path, { headers: { "If-None-Match": first.headers.get("etag") } });
  assert.deepEqual([same.status, await same.text()], [304, ""]);
  const other = await fetch(path, { headers: { "If-None-Match": '"other"' } });
  assert.deepEqual([other.status, await other.text()], [200, text]);
});

test("a page of an earlier gateway loads itself again, or says that it is of another version", async () => {
  const [script] = (await files()).filter((one) => one.endsWith("/main.js"));
  const version = script.slice(0, -"/main.js".length);
  const old = await open(undefined, { expected: [/Refused to apply style/] });
  await old.setRequestInterception(true);
  let isOld = true;
  old.on("request", async (request) => {
    const { pathname } = new URL(request.url());
    if (pathname !== "/explorer" || !isOld) return request.continue();
    isOld = false;
    const text = await (await fetch(`${origin}/explorer`)).text();
    // The names that 0.3 and an earlier build gave.
    return request.respond({
      contentType: "text/html", body: text.replace(script, "/explorer/main.js").replace(`${version}/early.js`, "/explorer/early.0123456789abcdef.js")
        .replaceAll(version, "/explorer/0123456789abcdef"),
    });
  });
  await old.goto(writing);
  await says(old, "Connect a program");
  assert.equal(isOld, false);
  await close(old);

  // The gateway is another one since the page was loaded; the user has opened its address.
  const page = await open(writing);
  await says(page, "Connect a program");
  await page.setRequestInterception(true);
  let isOther = true;
  page.on("request", async (request) => {
    if (!isOther || new URL(request.url()).pathname !== "/explorer/api") return request.continue();
    isOther = false;
    const answer = await (await fetch(request.url(), { method: "POST", headers: request.headers(), body: "{}" })).json();
    return request.respond({ contentType: "application/json", body: JSON.stringify({ ...answer, script: "/explorer/main.other.js" }) });
  });
  await page.evaluate((address) => { location.hash = new URL(address).hash; }, writing);
  await says(page, "This page is of another version than the gateway.", ".problem");
  await page.evaluate(() => { window.isOld = true; });
  await press(page, "Try again");
  await says(page, "Connect a program");
  assert.equal(await page.evaluate(() => window.isOld), undefined, "it is loaded again");
  await close(page);
});

test("rows do not move once they are there", async () => {
  const name = table("Placed", employees);
  const page = await open();
  await page.evaluateOnNewDocument(() => {
    const tops = new Set();
    window.tops = tops;
    new MutationObserver(() => {
      const row = document.querySelector(".grid tbody tr");
      if (row) tops.add(row.getBoundingClientRect().top);
    }).observe(document, { childList: true, subtree: true });
  });
  const held = await holding(page);
  const explained = held("explain_query");
  const answered = page.waitForResponse((response) => response.url().endsWith("/query_page"));
  await page.goto(at({ table: name, filter: "PartitionKey eq 'Marketing'" }));
  const release = await explained;
  await answered;
  await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 300); }));
  release();
  await page.waitForSelector("#explanation .keyline");
  await says(page, "2 entities.", ".pages");
  assert.equal(await page.evaluate(() => window.tops.size), 1);
  await close(page);
});

test("the first entities are asked for at once, and once", async () => {
  const name = table("Early", employees);
  const page = await open();
  const held = await holding(page);
  const hello = held("");
  const entities = held("query_page");
  const calls = [];
  page.on("request", (request) => calls.push(new URL(request.url()).pathname.split("/").pop()));
  await page.goto(at({ table: name, filter: "Age gt 30" }));
  const release = await hello;
  // The page does not know its rights yet.
  await entities.then((pass) => pass());
  release();
  await says(page, "2 entities.", ".pages");
  assert.deepEqual([calls.filter((one) => one === "api").length, calls.filter((one) => one === "query_page").length], [1, 1]);
  // A view that was shown once is read anew when one comes back.
  sql(`SELECT delete_entity('${name}', 'Marketing', '00002', '*')`);
  await page.evaluate(() => { location.hash = `${location.hash}&view=design`; });
  await says(page, "Property indexes", "#view");
  await page.goBack();
  await says(page, "1 entity.", ".pages");
  await close(page);
});
