// The first page: how a program gets at the tables of an account, its requests now, and all tables in a list.

import { button, bytes, element, number, say, segments, shown, sortedTable } from './dom.js';
import { icon } from './icons.js';
import { drawLoad, hotPartitions, rateText, requestsOf, watch } from './plots.js';
import { address, go } from './route.js';
import { SAMPLE } from './sample.js';
import { allTables, newTable } from './tables.js';

/** @import { Scope } from './api.js' */
/** @import { Table } from './tables.js' */

/** The text in a connection string for a key that only the gateway knows. */
const UNKNOWN = 'KEY';
/** The partitions beside the plots. */
const HOT = 6;

export async function showHome(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite) {
  const [tables, known] = await Promise.all([allTables(scope), scope.hello()]);
  const { account } = scope.route;
  main.classList.add('home');
  if (tables.length === 0) {
    main.append(element('section', { class: 'hero' }, icon('table'), element('h2', {}, 'There are no tables yet'),
      element('p', { class: 'quiet' }, canWrite
        ? 'Make one, look at a small sample, or let your program make one.'
        : 'This explorer only reads. A program makes a table with the lines below.'),
      canWrite && element('div', { class: 'tools' },
        button('New table', async () => newTable(await scope.forPanel()), { class: 'primary' }),
        button('Load sample data', () => loadSample(scope)))),
    connect(account, known, true));
    return;
  }
  const hot = element('section', { class: 'card', 'aria-labelledby': 'hot' });
  const hotHead = element('h2', { id: 'hot' }, 'Most requested partitions');
  const plots = element('div', { class: 'plots', 'data-columns': '3' }, hot);
  const list = listOf(account, tables);
  main.append(connect(account, known, false), plots, list.element);
  await watch(scope, (samples) => {
    drawLoad(plots);
    hot.replaceChildren(hotHead, hotPartitions(samples, account, HOT));
    list.show();
  }, (error) => hot.replaceChildren(hotHead, shown(error)));
}

/** The tables as a list that can be searched and sorted. */
function listOf(/** @type {string} */ account, /** @type {Table[]} */ tables) {
  const search = element('input', { type: 'search', placeholder: 'Find a table', 'aria-label': 'Find a table in the list' });
  const counted = element('span', { class: 'quiet', role: 'status' });
  const list = sortedTable('Tables', {
    name: { text: 'Table', name: (/** @type {Table} */ { name }) => name.toLowerCase() },
    entities: { text: 'Entities', size: ({ estimate }) => estimate ?? -1 },
    bytes: { text: 'Size', size: ({ bytes }) => bytes ?? -1 },
    indexes: { text: 'Indexes', size: ({ indexes }) => indexes },
    requests: { text: 'Requests a second', size: ({ name }) => requestsOf(account, name).rate },
    'of-curve': { text: '' },
  }, 'name', (table) => rowOf(account, table));
  const show = () => {
    const found = tables.filter(({ name }) => name.toLowerCase().includes(search.value.toLowerCase()));
    counted.textContent = found.length === tables.length ? number(tables.length) : `${number(found.length)} of ${number(tables.length)}`;
    // A row below the pointer or the focus is not replaced.
    if (!list.element.querySelector('tbody :is(:hover, :focus)')) {
      list.show(found);
    }
  };
  search.addEventListener('input', show);
  list.show(tables);
  show();
  return { show, element: element('section', { class: 'tables-list', 'aria-label': 'All tables' },
    element('div', { class: 'tools' }, element('h2', {}, 'Tables'), counted, search), list.element) };
}

function rowOf(/** @type {string} */ account, /** @type {Table} */ { name, estimate, bytes: size, indexes }) {
  const { rate, curve } = requestsOf(account, name);
  return element('tr', {},
    element('th', { scope: 'row' }, element('a', { href: address({ table: name, view: 'entities', filter: '', select: '' }), title: name },
      icon('table'), element('bdi', {}, name))),
    element('td', { class: 'entities', title: 'As PostgreSQL has counted or estimated it' },
      estimate === null ? 'unknown' : `${estimate === 0 ? '' : '≈ '}${number(estimate)}`),
    element('td', { class: 'bytes' }, size === null ? 'unknown' : bytes(size)),
    element('td', { class: 'indexes' }, indexes === 0 ? '–' : number(indexes)),
    element('td', { class: 'requests' }, rate === 0 ? '–' : rateText(rate)),
    element('td', { class: 'of-curve' }, curve));
}

/** A button that copies a text, and says so. */
export function copyButton(/** @type {string} */ label, /** @type {() => string} */ text) {
  const made = button([icon('copy'), 'Copy'], async () => {
    await navigator.clipboard.writeText(text());
    made.replaceChildren(icon('check'), 'Copy');
    say('Copied.');
    setTimeout(() => made.replaceChildren(icon('copy'), 'Copy'), 2000);
  }, { 'aria-label': label });
  return made;
}

/** How a program connects. */
function connect(/** @type {string} */ account, /** @type {{clients: string, keys: Record<string, string>}} */ { clients, keys },
  /** @type {boolean} */ isOpen) {
  const key = keys[account] ?? UNKNOWN;
  const connection = [
    `DefaultEndpointsProtocol=${clients.split(':')[0]}`, `AccountName=${account}`, `AccountKey=${key}`,
    `TableEndpoint=${clients}/${account}`].join(';');
  const field = element('input', { readonly: true, value: connection, 'aria-label': 'Connection string', class: 'mono' });
  field.addEventListener('focus', () => field.select());
  const code = element('pre', { tabindex: '0', 'aria-label': 'First lines' }, LINES['Python']);
  const languages = segments('Language', Object.keys(LINES), 'Python', (name) => {
    code.textContent = LINES[name] ?? '';
  });
  return element('section', { class: 'card connect', 'aria-labelledby': 'connect' },
    element('div', { class: 'joined' }, element('h2', { id: 'connect' }, 'Connect a program'), field,
      copyButton('Copy the connection string', () => connection)),
    key === UNKNOWN && element('p', { class: 'quiet' },
      'The explorer does not know the key of this account. It is in the configuration of the gateway.'),
    element('details', { open: isOpen }, element('summary', {}, 'First lines'),
      element('div', { class: 'code-head' }, languages, copyButton('Copy the lines', () => code.textContent ?? '')),
      code));
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

/** Makes two small tables with entities. */
async function loadSample(/** @type {Scope} */ scope) {
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
