// azure-entities, which maps classes to tables through its own fast-azure-storage 3.
"use strict";

const { ACCOUNT, KEY, assert, cloudAgent, freeName, points } = require("./support");
const Entity = require("azure-entities");

const agent = cloudAgent();
const credentials = { accountId: ACCOUNT, accessKey: KEY, retries: 0 };
const Job = Entity.configure({
  version: 1,
  partitionKey: Entity.keys.StringKey("queue"),
  rowKey: Entity.keys.DescendingIntegerKey("number"),
  properties: {
    queue: Entity.types.String,
    number: Entity.types.PositiveInteger,
    state: Entity.types.String,
    ratio: Entity.types.Number,
    due: Entity.types.Date,
    ready: Entity.types.Boolean,
    id: Entity.types.UUID,
    slug: Entity.types.SlugId,
    details: Entity.types.JSON,
    large: Entity.types.Blob,
    text: Entity.types.Text,
  },
});
const values = (number) => ({
  queue: "it's / größe",
  number,
  state: number % 2 ? "odd" : "even",
  ratio: 1.5,
  due: new Date("2024-02-29T12:34:56.789Z"),
  ready: true,
  id: "fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f",
  slug: "nQzNsZNTQ8G8kcMRpSDwVQ",
  details: { nested: [1, "two", null] },
  large: Buffer.alloc(200000, 7),
  text: "ä".repeat(100000),
});

async function jobs() {
  const made = Job.setup({ tableName: freeName(), credentials, agent });
  await made.ensureTable();
  return made;
}
const coded = (code) => (error) => error.code === code;

points({
  tables: async () => {
    const made = await jobs();
    await made.ensureTable();
    await made.removeTable();
    await assert.rejects(made.create(values(1)), coded("TableNotFound"));
  },
  "all types": async () => {
    const made = await jobs();
    await made.create(values(1));
    const got = await made.load({ queue: "it's / größe", number: 1 });
    for (const [name, value] of Object.entries(values(1))) assert.deepEqual(got[name], value, name);
  },
  conflicts: async () => {
    const made = await jobs();
    const mine = await made.create(values(1));
    await assert.rejects(made.create(values(1)), coded("EntityAlreadyExists"));
    await made.create({ ...values(1), ratio: 2.5 }, true); // overwrites
    await assert.rejects(made.load({ queue: "none", number: 1 }), coded("ResourceNotFound"));
    // Two writers: the second sees 412, reads again and tries again.
    const other = await made.load({ queue: "it's / größe", number: 1 });
    await other.modify((job) => void (job.state = "first"));
    const stale = await mine.modify((job) => void (job.ready = false));
    assert.deepEqual([stale.state, stale.ready, stale.ratio], ["first", false, 2.5]);
    await stale.remove();
    await assert.rejects(stale.remove(), coded("ResourceNotFound"));
    await stale.remove(true, true); // gone is well
  },
  filters: async () => {
    const made = await jobs();
    for (let number = 1; number <= 5; number++) await made.create({ ...values(number), large: Buffer.alloc(0), ratio: number / 2 + 0.25 }); // whole numbers would be Int32
    const found = async (conditions, options) => (await made.scan(conditions, options)).entries.map((job) => job.number);
    assert.deepEqual(await found({ state: "odd" }), [5, 3, 1]);
    assert.deepEqual(await found({ ratio: Entity.op.greaterThan(2), ready: true }), [5, 4]);
    assert.deepEqual(await found({ due: Entity.op.lessThan(new Date("2024-02-29T12:34:56.789Z")) }), []);
    const seen = [];
    await made.query({ queue: "it's / größe" }, { limit: 2, handler: (job) => void seen.push(job.number) });
    assert.deepEqual(seen, [5, 4, 3, 2, 1]);
  },
  pages: async () => {
    const made = await jobs();
    const small = { large: Buffer.alloc(0), text: "" };
    for (let start = 0; start < 1100; start += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => made.create({ ...values(start + i), ...small })));
    }
    let seen = 0;
    await made.query({ queue: "it's / größe" }, { handler: () => void seen++ });
    assert.equal(seen, 1100);
    const page = await made.query({ queue: "it's / größe" }, {});
    assert.equal(page.entries.length, 1000);
    assert.equal((await made.query({ queue: "it's / größe" }, { continuation: page.continuation })).entries.length, 100);
  },
});
