// The entities of a table: a filter, how it is executed, what one can do, and a page in a grid.

import { Part, Problem } from './api.js';
import { clearTable, deleteByFilter, deleteSelected, dropTable, exportEntities } from './bulk.js';
import { editCell } from './cell.js';
import { Columns, picker } from './columns.js';
import { attempt, button, element, entitiesText, labelled, number, say, shown } from './dom.js';
import { SIZES, pageOf, pageSize } from './early.js';
import { editEntity, insertEntity } from './entity.js';
import { explain, noteReading } from './explain.js';
import { FilterField } from './filter.js';
import { and, isUnfinished, literal, whyNothing } from './filters.js';
import { Grid, copy, keysOf, typesOf } from './grid.js';
import { icon } from './icons.js';
import { importEntities } from './import.js';
import { remember } from './memory.js';
import { iconButton, menu } from './menu.js';
import { closePanel } from './panel.js';
import { address, go } from './route.js';

/** @typedef {import('./api.js').Entity} Entity */
/** @typedef {import('./api.js').Scope} Scope */
/** @typedef {import('./filters.js').Column} Column */

/** The pause after the last key before the filter is explained, in milliseconds. */
const PAUSE = 200;
/** How many values of a property the filter offers. */
const OFFERED = 8;

/**
 * The last page, for what comes after it at the same place: until the new page is there the old one stays, and then it is scrolled
 * as the old one was.
 *
 * @type {{place: string, address: string, grid: Grid | null, explanation: HTMLElement, types: Map<string, Set<string>>} | null}
 */
let last = null;

/**
 * @param {HTMLElement} main
 * @param {Scope} scope
 * @param {boolean} canWrite
 */
export async function showEntities(main, scope, canWrite) {
  const { account, table, filter, select, position } = scope.route;
  const place = `${account} ${table}`;
  const before = last?.place === place ? last : null;
  const explanation = before?.explanation ?? element('div', { id: 'explanation' });
  const shownBefore = before?.grid?.scrolled ?? { left: 0, top: 0 };
  const now = {
    place, address: location.hash, grid: /** @type {Grid | null} */ (null), explanation, types: before?.types ?? new Map(),
  };
  last = now;
  const layout = new Columns(account, table);
  if (select !== '') {
    layout.order = select.split(',');
    layout.order.forEach((name) => layout.hidden.delete(name));
  }
  /** @type {Map<string, Column>} */
  let columns = new Map();

  const plan = new Part(scope.signal);
  const explainFilter = async (/** @type {string} */ filter) => {
    const problem = await explain(explanation, plan.begin({ ...scope.route, filter }), canWrite);
    if (problem) {
      refuse(problem, filter);
    }
  };
  /** Shows an error of the filter below it, and where it is. A filter that somebody still types is only unfinished. */
  const refuse = (/** @type {Problem} */ problem, /** @type {string} */ text) => {
    if (document.activeElement === field.input && text !== filter && isUnfinished(text, problem.message)) {
      explanation.replaceChildren(element('span', {}, `Not finished. ${problem.hint ?? ''}`));
    } else {
      field.refuse(problem.message);
      explanation.replaceChildren(shown(problem));
    }
  };
  let timer = 0;
  scope.signal.addEventListener('abort', () => clearTimeout(timer));
  const field = new FilterField(scope.route, {
    run: (filter) => go({ filter }),
    changed: (filter) => {
      clearTimeout(timer);
      timer = setTimeout(() => attempt(() => explainFilter(filter)), PAUSE);
    },
    columns: () => columns,
    leave: () => now.grid?.go(0, canWrite ? 1 : 0),
  });

  const panel = () => scope.forPanel();
  const more = iconButton('more', 'More actions');
  const count = async () => {
    const { count } = await scope.call('count_entities', { table, filter: filter || null });
    say(`${entitiesText(count)}${filter ? ' match the filter' : ''}.`);
  };
  const actions = element('div', { class: 'actions', role: 'group', 'aria-label': 'Actions' },
    picker(layout, () => new Map([...now.types].map(([name, types]) => [name, [...types].join(' or ')])), () => showColumns()),
    menu(more, 'More actions', [
      canWrite && { text: 'Import', icon: 'import', action: () => importEntities(panel()) },
      { text: 'Export', icon: 'export', action: () => exportEntities(panel()) },
      { text: 'Count exactly', icon: 'count', action: count },
      canWrite && null,
      canWrite && filter !== '' && { text: 'Delete by filter', icon: 'trash', isDanger: true, action: () => deleteByFilter(panel()) },
      canWrite && { text: 'Clear table', icon: 'clear', isDanger: true, action: () => clearTable(panel()) },
      canWrite && { text: 'Drop table', icon: 'trash', isDanger: true, action: () => dropTable(panel()) },
    ]),
    canWrite && insertButton(() => insertEntity(panel())));
  const selection = element('div', { class: 'selection', role: 'group', 'aria-label': 'Selected entities', hidden: true });
  const stage = element('div', { class: 'stage fills' }, selection);
  const pages = element('div', { class: 'pages' });
  main.classList.add('fills');
  main.append(element('div', { class: 'toolbar' }, field.element, actions), explanation, stage, pages);
  if (before?.grid) {
    before.grid.element.inert = true;
    stage.append(before.grid.element);
    before.grid.element.scrollTo(shownBefore);
  }
  // An error of the filter is that of the page too, and is shown once.
  const explained = attempt(() => explain(explanation, plan.begin(scope.route), canWrite));

  let page;
  try {
    page = await scope.call('query_page', pageOf(scope.route));
  } catch (error) {
    before?.grid?.element.remove();
    if (error instanceof Problem && error.status < 500 && filter !== '') {
      await explained;
      refuse(error, filter);
      return;
    }
    throw error;
  }
  // It stands above the rows, which do not move once they are there.
  await explained;
  scope.signal.throwIfAborted();
  noteReading(explanation, scope.route, page);
  const entities = /** @type {Entity[]} */ (page.entities);
  for (const [name, types] of typesOf(entities)) {
    now.types.set(name, new Set([...now.types.get(name) ?? [], ...types]));
  }
  columns = columnsOf(entities, now.types);

  /** @type {Grid} */
  const grid = new Grid(entities, layout, {
    canWrite,
    open: (entity) => editEntity(panel(), entity.partitionKey, entity.rowKey, canWrite, {
      at: entities.indexOf(entity), count: entities.length, open: (index) => grid.open(index),
    }),
    choose: (chosen) => showSelection(chosen),
    filter: (condition) => go({ filter: and(field.filter, condition) }),
    ask: (name) => field.begin(and(field.filter, `${name} `)),
    arrange: () => showColumns(),
    edit: (entity, name, type, cell) => closePanel() && editCell(panel(), entity, name, type, cell),
    whole: async ({ partitionKey, rowKey }, name) => {
      const entity = await scope.call('get_entity', { table, partitionKey, rowKey });
      return entity.properties.find((/** @type {[string]} */ [one]) => one === name)?.[2] ?? '';
    },
  });
  addEventListener('panel-closed', () => grid.mark(null), { signal: scope.signal });

  /** Shows the columns that the user has chosen, and writes them into the address, for a colleague. */
  function showColumns() {
    const all = layout.sorted(now.types.keys());
    const wanted = all.filter((name) => !layout.hidden.has(name));
    const select = wanted.length === all.length ? '' : wanted.join(',');
    const loaded = scope.route.select;
    if (loaded === '' || (select !== '' && wanted.every((name) => loaded.split(',').includes(name)))) {
      history.replaceState(null, '', address({ select, position }));
      grid.show();
    } else {
      go({ select });
    }
  }
  function showSelection(/** @type {Set<Entity>} */ chosen) {
    selection.hidden = chosen.size === 0;
    if (chosen.size > 0) {
      selection.replaceChildren(element('strong', {}, `${number(chosen.size)} selected`),
        button('Copy keys', () => copy(keysOf(chosen), 'The keys are')),
        button('Delete', () => deleteSelected(panel(), [...chosen]), { class: 'danger' }),
        iconButton('close', 'Select none', () => {
          grid.chosen.clear();
          grid.showTicks();
        }));
    }
  }

  before?.grid?.element.remove();
  now.grid = grid;
  stage.append(grid.element);
  grid.show();
  if (before?.address === now.address) {
    grid.element.scrollTo(shownBefore);
    const { row, column } = before.grid?.at ?? grid.at;
    grid.at = { row: Math.min(row, entities.length - 1), column };
    grid.showRows();
    grid.markCell();
  }
  if (entities.length === 0) {
    const nothing = element('div', { class: 'nothing' }, element('p', { class: 'quiet' }, page.token
      ? 'Nothing found so far. There is more of the table to search.'
      : 'No entities.'));
    if (filter === '' && !page.token && !position && canWrite) {
      nothing.append(element('div', { class: 'tools' },
        button('Insert an entity', () => insertEntity(panel())), button('Import a file', () => importEntities(panel()))));
    }
    stage.append(nothing);
    if (filter !== '' && !page.token) {
      attempt(() => explainNothing(nothing, scope, now.types));
    }
  }

  const size = element('select', { 'aria-label': 'Entities of a page', onchange: () => {
    remember('page', Number(size.value));
    go({});
  } }, ...SIZES.map((one) => element('option', { value: one, selected: one === pageSize() }, `${one} a page`)));
  pages.append(element('span', {}, `${entitiesText(entities.length)}${page.token ? ', and there are more' : ''}.`),
    element('span', { class: 'end' }),
    labelled('Page', size),
    ...(position ? [button('First page', () => go({})), button('Back', () => history.back())] : []),
    ...(page.token ? [button(entities.length ? 'Next page' : 'Search on', () => go({ position: page.token }))] : []));
}

function insertButton(/** @type {() => unknown} */ action) {
  const made = button('', action, { class: 'primary', 'aria-label': 'Insert' });
  made.append(icon('plus'), element('span', {}, 'Insert'));
  return made;
}

/**
 * What the filter completes: all properties that were seen, with some of the values of the page.
 *
 * @param {Entity[]} entities
 * @param {Map<string, Set<string>>} types
 * @returns {Map<string, Column>}
 */
function columnsOf(entities, types) {
  /** @type {Map<string, Set<string>>} */
  const values = new Map();
  const note = (/** @type {string} */ name, /** @type {string | null} */ value) => {
    const some = values.get(name) ?? new Set();
    values.set(name, some);
    if (value !== null && some.size < OFFERED) {
      some.add(value);
    }
  };
  for (const { partitionKey, rowKey, timestamp, properties } of entities) {
    note('PartitionKey', literal('String', partitionKey));
    note('RowKey', literal('String', rowKey));
    note('Timestamp', literal('DateTime', timestamp));
    for (const [name, type, value, length] of properties) {
      note(name, value.length >= length && length <= 40 ? literal(type.replace('Edm.', ''), value) : null);
    }
  }
  const keys = /** @type {[string, Set<string>][]} */ ([
    ['PartitionKey', new Set(['String'])], ['RowKey', new Set(['String'])], ['Timestamp', new Set(['DateTime'])]]);
  return new Map([...keys, ...types].map(([name, types]) => [name, { types, values: [...values.get(name) ?? []] }]));
}

/**
 * Says why a filter has found nothing, if the first page of the table shows it.
 *
 * @param {HTMLElement} where
 * @param {Scope} scope
 * @param {Map<string, Set<string>>} types that were seen in the table
 */
async function explainNothing(where, scope, types) {
  const { table, filter } = scope.route;
  const { entities } = await scope.call('query_page', { table, filter: null, select: null, top: 100, token: null });
  if (entities.length === 0) {
    where.append(element('p', { class: 'quiet' }, 'The table is empty.'));
    return;
  }
  const all = new Map([...types, ...typesOf(entities)]);
  for (const { reason, mended } of whyNothing(filter, columnsOf(entities, all))) {
    where.append(element('p', {}, reason, ' ',
      mended !== null && button('Run it so', () => go({ filter: mended }), { class: 'link', title: mended })));
  }
}
