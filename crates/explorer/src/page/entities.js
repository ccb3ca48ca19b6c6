// The entities of a table: a filter, how it is executed, and a page in a grid.

import { Part } from './api.js';
import { attempt, button, element, form, labelled, number, say, shown } from './dom.js';
import { clearTable, deleteByFilter, deleteSelected, dropTable, exportEntities } from './bulk.js';
import { editEntity, insertEntity } from './entity.js';
import { explain, noteReading } from './explain.js';
import { importEntities } from './import.js';
import { go } from './route.js';

/** @typedef {import('./api.js').Entity} Entity */
/** @typedef {import('./api.js').Scope} Scope */

const PAGE = 100;
/** The pause after the last key before the filter is explained, in milliseconds. */
const PAUSE = 200;

/**
 * @param {HTMLElement} main
 * @param {Scope} scope
 * @param {boolean} canWrite
 */
export async function showEntities(main, scope, canWrite) {
  const { table, filter, select, position } = scope.route;
  const filterField = element('input', {
    id: 'filter', value: filter, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off',
    placeholder: "PartitionKey eq 'Sales' and Age gt 30", 'aria-describedby': 'explanation',
  });
  const selectField = element('input', {
    value: select, spellcheck: 'false', autocomplete: 'off', placeholder: 'all', size: '12',
  });
  const explanation = element('div', { id: 'explanation' });
  const search = form(() => go({ filter: filterField.value.trim(), select: selectField.value.trim() }),
    labelled('Filter', filterField), labelled('Columns', selectField), element('button', { class: 'primary' }, 'Run'));
  search.className = 'search';
  search.setAttribute('role', 'search');

  const grid = element('div', { class: 'grid' });
  const pages = element('div', { class: 'pages' });
  const tools = element('div', { class: 'tools', role: 'group', 'aria-label': 'Actions' });
  main.append(search, explanation, tools, grid, pages);

  const plan = new Part(scope.signal);
  const explainFilter = async (/** @type {string} */ filter) => {
    const problem = await explain(explanation, plan.begin({ ...scope.route, filter }), canWrite);
    if (problem) {
      explanation.replaceChildren(shown(problem));
    }
  };
  let timer = 0;
  filterField.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => attempt(() => explainFilter(filterField.value.trim())), PAUSE);
  });
  attempt(() => explainFilter(filter));

  const page = await scope.call('query_page', {
    table, filter: filter || null, select: select || null, top: PAGE, token: position || null,
  });
  noteReading(explanation, scope.route, page);
  /** @type {Set<Entity>} */
  const chosen = new Set();
  const panel = () => scope.forPanel();
  const open = (/** @type {Entity} */ { partitionKey, rowKey }) => editEntity(panel(), partitionKey, rowKey, canWrite);
  grid.append(table_(page.entities, chosen, canWrite, open));
  if (page.entities.length === 0) {
    grid.append(element('p', { class: 'quiet' }, page.token
      ? 'Nothing found so far. There is more of the table to search.'
      : 'No entities.'));
  }

  const count = button('Count exactly', async () => {
    const { count } = await scope.call('count_entities', { table, filter: filter || null });
    say(`${number(count)} entities${filter ? ' match the filter' : ''}.`);
  });
  const exports = [button('Export', () => exportEntities(panel()))];
  const writes = [
    button('Insert', () => insertEntity(panel())),
    button('Delete selected', () => deleteSelected(panel(), [...chosen])),
    button('Delete by filter', () => deleteByFilter(panel())),
    button('Import', () => importEntities(panel())),
    button('Clear table', () => clearTable(panel()), { class: 'danger' }),
    button('Drop table', () => dropTable(panel()), { class: 'danger' }),
  ];
  tools.append(...(canWrite ? writes.slice(0, 4) : []), ...exports, count, ...(canWrite ? writes.slice(4) : []));

  pages.append(element('span', {}, `${number(page.entities.length)} entities${page.token ? ', and there are more' : ''}.`));
  if (position) {
    pages.append(button('First page', () => go({})));
    pages.append(button('Back', () => history.back()));
  }
  if (page.token) {
    pages.append(button(page.entities.length ? 'Next page' : 'Search on', () => go({ position: page.token })));
  }
}

/** The type without its prefix. */
const short = (/** @type {string} */ type) => type.replace('Edm.', '');

/**
 * @param {Entity[]} entities
 * @param {Set<Entity>} chosen
 * @param {boolean} canWrite
 * @param {(entity: Entity) => unknown} onOpen
 */
function table_(entities, chosen, canWrite, onOpen) {
  /** @type {Map<string, Set<string>>} */
  const columns = new Map();
  for (const entity of entities) {
    for (const [name, type] of entity.properties) {
      columns.set(name, (columns.get(name) ?? new Set()).add(short(type)));
    }
  }
  const names = [...columns.keys()].sort();
  const head = (/** @type {string} */ name, /** @type {string} */ type) => element('th', { scope: 'col' },
    element('bdi', {}, name), type ? element('small', {}, type) : '');
  const all = element('input', { type: 'checkbox', 'aria-label': 'Select all' });
  const boxes = entities.map((entity) => {
    const box = element('input', { type: 'checkbox', 'aria-label': `Select ${entity.partitionKey} ${entity.rowKey}` });
    box.addEventListener('change', () => (box.checked ? chosen.add(entity) : chosen.delete(entity)));
    return box;
  });
  all.addEventListener('change', () => {
    entities.forEach((entity, index) => {
      const box = boxes[index];
      if (box) {
        box.checked = all.checked;
      }
      if (all.checked) {
        chosen.add(entity);
      } else {
        chosen.delete(entity);
      }
    });
  });
  const rows = entities.map((entity, index) => {
    const values = new Map(entity.properties.map((property) => [property[0], property]));
    const open = button('', () => onOpen(entity), {
      class: 'open', 'aria-label': `Open ${entity.partitionKey} ${entity.rowKey}`,
    });
    open.append(text(entity.partitionKey));
    return element('tr', {},
      canWrite && element('td', {}, boxes[index]),
      element('td', {}, open),
      element('td', {}, text(entity.rowKey)),
      element('td', { class: 'quiet' }, entity.timestamp),
      ...names.map((name) => cell(values.get(name), (columns.get(name)?.size ?? 1) > 1)));
  });
  const made = element('table', {},
    element('thead', {}, element('tr', {}, canWrite && element('td', {}, all),
      head('PartitionKey', 'String'), head('RowKey', 'String'), head('Timestamp', 'DateTime'),
      ...names.map((name) => head(name, [...(columns.get(name) ?? [])].sort().join(' or '))))),
    element('tbody', {}, ...rows));
  made.addEventListener('keydown', moveBetweenRows);
  return made;
}

/**
 * @param {import('./api.js').Property | undefined} property
 * @param {boolean} isMixed whether the column has values of several types
 */
function cell(property, isMixed) {
  if (!property) {
    return element('td', { class: 'absent' });
  }
  const [, type, value, length] = property;
  const isCut = [...value].length < length;
  return element('td', { class: `type-${short(type)}` },
    text(isCut ? `${value}…` : value),
    isCut && element('small', {}, `${number(length)} characters`),
    isMixed && element('small', {}, short(type)));
}

/** A text in a box of its own, so that no direction of writing gets out of it. An empty one can be seen. */
function text(/** @type {string} */ value) {
  return value === '' ? element('span', { class: 'empty' }, '(empty)') : element('bdi', {}, value);
}

/** @param {KeyboardEvent} event */
function moveBetweenRows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = /** @type {HTMLElement} */ (event.target).closest('tbody tr');
  if (step && row) {
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
    /** @type {HTMLElement | null | undefined} */ (next?.querySelector('button.open'))?.focus();
    event.preventDefault();
  }
}
