// The first page: the tables of an account as cards, what is asked of them now, and how a program gets at them.

import { button, bytes, element, number, say, shown } from './dom.js';
import { icon } from './icons.js';
import { drawLoad, hotPartitions, requestsOf, watch } from './plots.js';
import { address, go } from './route.js';
import { SAMPLE } from './sample.js';
import { allTables, newTable } from './tables.js';

/** @typedef {import('./api.js').Scope} Scope */
/** @typedef {import('./plots.js').Sample} Sample */

/** The most cards. All tables stand in the list beside them. */
const CARDS = 60;
/** What stands in a connection string for a key that only the gateway knows. */
const UNKNOWN = 'KEY';

/**
 * @param {HTMLElement} main
 * @param {Scope} scope
 * @param {boolean} canWrite
 */
export async function showHome(main, scope, canWrite) {
  const [tables, known] = await Promise.all([allTables(scope), scope.hello()]);
  const { account } = scope.route;
  main.classList.add('home');
  if (tables.length === 0) {
    main.append(element('section', { class: 'hero' }, icon('table'), element('h2', {}, 'There are no tables yet'),
      element('p', { class: 'quiet' }, canWrite
        ? 'Make one, look at a small sample, or let your program make one.'
        : 'This explorer only reads. A program makes a table with the lines below.'),
      canWrite && element('div', { class: 'tools' },
        button('New table', () => newTable(scope.forPanel()), { class: 'primary' }),
        button('Load sample data', () => loadSample(scope)))),
    connect(account, known));
    return;
  }
  const cards = tables.slice(0, CARDS).map((table) => ({ table, ...card(table) }));
  const plots = element('div', { class: 'plots' });
  const hot = element('section', { class: 'card', 'aria-labelledby': 'hot' });
  const hotHead = element('h2', { id: 'hot' }, 'Hot partitions');
  main.append(element('div', { class: 'cards' }, ...cards.map(({ made }) => made)),
  element('p', { class: 'quiet', hidden: tables.length <= CARDS }, `and ${number(tables.length - CARDS)} more tables`),
  element('h2', {}, 'Load of the gateway'), plots,
  element('div', { class: 'columns' }, hot, connect(account, known)));
  await watch(scope, (samples) => {
    drawLoad(plots);
    hot.replaceChildren(hotHead, element('p', { class: 'quiet' }, 'Recent requests of the partitions that are asked for most.'),
      hotPartitions(samples, account));
    for (const { table, requests } of cards) {
      const { rate, curve } = requestsOf(account, table.name);
      const words = `${rate < 10 ? rate.toFixed(1) : number(Math.round(rate))} requests a second`;
      requests.replaceChildren(...(rate === 0 ? [] : [words, curve || '']));
    }
  }, (error) => plots.replaceChildren(shown(error)));
}

/** @param {import('./tables.js').Table} table */
function card({ name, estimate, bytes: size, indexes }) {
  const requests = element('span', { class: 'requests-now', title: 'On the partitions that are asked for most' });
  const count = estimate === null
    ? [element('strong', { class: 'figure' }, '–'), element('span', {}, 'not analysed yet')]
    : [element('strong', { class: 'figure' }, `≈ ${short(estimate)}`), element('span', {}, 'entities')];
  const made = element('a', {
    class: 'card table-card', href: address({ table: name, view: 'entities', filter: '', select: '' }),
    title: estimate === null ? name : `${name}: PostgreSQL estimated ${number(estimate)} entities when it analysed the table`,
  },
  element('span', { class: 'name' }, icon('table'), element('bdi', {}, name)),
  element('span', { class: 'count' }, ...count),
  element('span', { class: 'facts' },
    element('span', {}, size === null ? 'size unknown' : bytes(size)),
    element('span', {}, `${indexes === 0 ? 'no' : number(indexes)} index${indexes === 1 ? '' : 'es'}`)),
  requests);
  return { made, requests };
}

/** A large number in a few characters. */
function short(/** @type {number} */ count) {
  return count < 100_000 ? number(count) : Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 }).format(count);
}

/** A button that copies a text, and says so. */
export function copyButton(/** @type {string} */ label, /** @type {() => string} */ text) {
  const made = button('', async () => {
    await navigator.clipboard.writeText(text());
    made.replaceChildren(icon('check'), 'Copy');
    say('Copied.');
    setTimeout(() => made.replaceChildren(icon('copy'), 'Copy'), 2000);
  }, { 'aria-label': label });
  made.append(icon('copy'), 'Copy');
  return made;
}

/**
 * How a program connects.
 *
 * @param {string} account
 * @param {{clients: string, keys: Record<string, string>}} known
 */
function connect(account, { clients, keys }) {
  const key = keys[account] ?? UNKNOWN;
  const connection = [
    `DefaultEndpointsProtocol=${clients.split(':')[0]}`, `AccountName=${account}`, `AccountKey=${key}`,
    `TableEndpoint=${clients}/${account}`].join(';');
  const field = element('input', { readonly: true, value: connection, 'aria-label': 'Connection string', class: 'mono' });
  field.addEventListener('focus', () => field.select());
  const code = element('pre', { tabindex: '0', 'aria-label': 'First lines' });
  const names = Object.keys(LINES);
  const choices = names.map((name) => {
    const choice = element('button', { type: 'button', 'aria-pressed': 'false' }, name);
    choice.addEventListener('click', () => choose(name));
    return choice;
  });
  const choose = (/** @type {string} */ name) => {
    code.textContent = LINES[name] ?? '';
    choices.forEach((choice) => choice.setAttribute('aria-pressed', String(choice.textContent === name)));
  };
  choose(names[0] ?? '');
  return element('section', { class: 'card connect', 'aria-labelledby': 'connect' },
    element('h2', { id: 'connect' }, 'Connect a program'),
    element('div', { class: 'joined' }, field, copyButton('Copy the connection string', () => connection)),
    key === UNKNOWN && element('p', { class: 'quiet' },
      'The explorer does not know the key of this account. It is in the configuration of the gateway.'),
    element('div', { class: 'code-head' }, element('div', { class: 'segments', role: 'group', 'aria-label': 'Language' }, ...choices),
      copyButton('Copy the lines', () => code.textContent ?? '')),
    code);
}

/**
 * The first lines of a program, by language.
 *
 * @type {Record<string, string>}
 */
const LINES = {
  Python: `from azure.data.tables import TableServiceClient
service = TableServiceClient.from_connection_string(CONNECTION_STRING)
people = service.create_table_if_not_exists("People")
people.upsert_entity({"PartitionKey": "Oslo", "RowKey": "1", "Name": "Ada", "Age": 36})
print(list(people.query_entities("PartitionKey eq 'Oslo' and Age gt 30")))`,
  JavaScript: `import { TableClient } from "@azure/data-tables";
const people = TableClient.fromConnectionString(CONNECTION_STRING, "People", { allowInsecureConnection: true });
await people.createTable();
await people.upsertEntity({ partitionKey: "Oslo", rowKey: "1", Name: "Ada", Age: 36 });
for await (const one of people.listEntities({ queryOptions: { filter: "Age gt 30" } })) console.log(one);`,
  '.NET': `using Azure.Data.Tables;
var people = new TableClient(connectionString, "People");
await people.CreateIfNotExistsAsync();
await people.UpsertEntityAsync(new TableEntity("Oslo", "1") { ["Name"] = "Ada", ["Age"] = 36 });
await foreach (var one in people.QueryAsync<TableEntity>("Age gt 30")) Console.WriteLine(one["Name"]);`,
  Java: `var service = new TableServiceClientBuilder().connectionString(connectionString).buildClient();
service.createTableIfNotExists("People");
var people = service.getTableClient("People");
people.upsertEntity(new TableEntity("Oslo", "1").addProperty("Name", "Ada").addProperty("Age", 36));
people.listEntities(new ListEntitiesOptions().setFilter("Age gt 30"), null, null).forEach(one -> System.out.println(one.getProperties()));`,
  Go: `service, err := aztables.NewServiceClientFromConnectionString(connectionString, nil)
people := service.NewClient("People")
_, err = people.CreateTable(ctx, nil)
_, err = people.UpsertEntity(ctx, []byte(\`{"PartitionKey": "Oslo", "RowKey": "1", "Name": "Ada", "Age": 36}\`), nil)
page, err := people.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: to.Ptr("Age gt 30")}).NextPage(ctx)`,
  psql: `SET search_path = table_service, public;
SELECT create_table('People', if_not_exists => true);
SELECT insert_or_replace_entity('People', 'Oslo', '1', '{"Name": "Ada", "Age": 36}');
SELECT create_property_index('People', 'Age');
SELECT * FROM query_entities('People', $$Age gt 30$$);`,
};

/**
 * Makes two small tables with entities.
 *
 * @param {Scope} scope
 */
async function loadSample(scope) {
  for (const { table, entities, index } of SAMPLE) {
    await scope.step('create_table', { table });
    const part = entities.map((entity) => `${JSON.stringify(entity)}\n`).join('');
    for (let rest = part, line = 1; rest;) {
      const answer = await scope.step('import_entities', { table, mode: 'insert', form: 'lines', part: rest, line, isLast: true });
      rest = rest.slice(answer.taken);
      ({ line } = answer);
    }
    await scope.step('create_property_index', { table, property: index });
  }
  scope.signal.throwIfAborted();
  dispatchEvent(new Event('tables-changed'));
  go({ table: SAMPLE[0].table, view: 'entities', filter: '', select: '' });
}

