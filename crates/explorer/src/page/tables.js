// The list of tables.

import { bytes, element, form, labelled, number, say } from './dom.js';
import { icon } from './icons.js';
import { iconButton } from './menu.js';
import { closePanel, openPanel } from './panel.js';
import { address, go, route } from './route.js';

/** @import { Scope } from './api.js' */
/** @typedef {{name: string, estimate: number | null, bytes: number | null, indexes: number}} Table */

/** Fills the list, and again when something may have changed. */
export async function showTables(/** @type {HTMLElement} */ list, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite) {
  const tables = await allTables(scope);
  const old = list.querySelector('input');
  const search = element('input', { type: 'search', placeholder: 'Find a table', 'aria-label': 'Find a table' });
  search.value = old?.value ?? '';
  const items = tables.map((table) => ({ table, item: item(table) }));
  const narrow = () => {
    for (const { table, item } of items) {
      item.hidden = !table.name.toLowerCase().includes(search.value.toLowerCase());
    }
  };
  search.addEventListener('input', narrow);
  narrow();
  list.replaceChildren(
    element('div', { class: 'top' }, element('h2', {}, 'Tables'),
      canWrite && iconButton('plus', 'New table', async () => newTable(await scope.forPanel()))),
    search,
    element('ul', {}, ...items.map(({ item }) => item)),
    tables.length === 0 ? element('p', { class: 'quiet' }, 'There are no tables.') : '');
  markTable(list);
}

/** Marks the table that is shown. */
export function markTable(/** @type {HTMLElement} */ list) {
  for (const link of list.querySelectorAll('a')) {
    link.ariaCurrent = link.dataset['table'] === route().table ? 'page' : null;
  }
}

/** @param {Scope} scope */
export async function allTables(scope) {
  const all = /** @type {Table[]} */ ([]);
  let token = /** @type {string | null} */ (null);
  do {
    const page = await scope.call('query_tables', { token });
    all.push(...page.tables);
    token = page.token;
  } while (token);
  return all;
}

/** @param {Table} table */
function item(table) {
  // PostgreSQL estimates the number when it analyses the table. The size is not asked for while a lock is in its way.
  const count = table.estimate === null ? '' : `${table.estimate === 0 ? '' : '≈ '}${number(table.estimate)} · `;
  const size = table.bytes === null ? 'size unknown' : bytes(table.bytes);
  return element('li', {}, element('a', {
    href: address({ table: table.name, view: 'entities', filter: '', select: '' }),
    'data-table': table.name,
    title: table.name,
  }, icon('table'), element('span', { class: 'name' }, table.name), element('small', {}, count + size)));
}

/** @param {Scope} scope */
export function newTable(scope) {
  const name = element('input', { required: true, autocomplete: 'off', spellcheck: 'false' });
  openPanel('New table', form(async () => {
    await scope.change('create_table', { table: name.value });
    say(`${name.value} is there.`);
    closePanel();
    dispatchEvent(new Event('tables-changed'));
    go({ table: name.value, view: 'entities', filter: '', select: '' });
  }, labelled('Name', name), element('button', { class: 'primary' }, 'Create table')));
  name.focus();
}
