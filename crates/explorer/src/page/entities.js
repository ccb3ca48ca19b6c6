// The entities of a table: a filter, how it is executed, the actions, and a page in a grid.

import { Part, Problem, loaded } from './api.js';
import { Columns, picker } from './columns.js';
import { attempt, button, element, entitiesText, labelled, number, say, shown } from './dom.js';
import { explain, noteReading } from './explain.js';
import { FilterField } from './filter.js';
import { and, isUnfinished, literal, whyNothing } from './filters.js';
import { Grid, copy, keysOf, typesOf } from './grid.js';
import { icon } from './icons.js';
import { recall, remember } from './memory.js';
import { iconButton, menu } from './menu.js';
import { closePanel } from './panel.js';
import { address, go } from './route.js';

/** @import { Entity, Scope } from './api.js' */
/** @import { Column } from './filters.js' */
/** @typedef {{entities: Entity[], token: string | null, read: number | null}} Page */

/** The numbers of entities that a page can have. */
const SIZES = [100, 200, 500, 1000];
const pageSize = () => SIZES.find((one) => one === recall('page')) ?? 100;
/** The pause after the last key before the filter is explained, in milliseconds. */
const PAUSE = 200;
/** How many values of a property the filter offers. */
const OFFERED = 8;

/**
 * The last page, for the next one at the same place: the old page stays until the new one is there, and then that is
 * scrolled as the old one was.
 *
 * @type {View | null}
 */
let last = null;

export async function showEntities(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite) {
  const { account, table } = scope.route;
  const before = last?.place === `${account} ${table}` ? last : null;
  last = new View(main, scope, canWrite, before);
  await last.load(before);
}

class View {
  constructor(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite,
    /** @type {View | null} */ before) {
    const { account, table, select } = scope.route;
    this.scope = scope;
    this.canWrite = canWrite;
    this.place = `${account} ${table}`;
    this.address = location.hash;
    this.explanation = before?.explanation ?? element('div', { id: 'explanation' });
    /** The properties that were seen in the table, in the order of their columns, with their types. */
    this.types = before?.types ?? new Map();
    this.grid = before?.grid ?? null;
    this.plan = new Part(scope.signal);
    this.layout = new Columns(account, table);
    if (select !== '') {
      this.layout.order = select.split(',');
      this.layout.order.forEach((name) => this.layout.hidden.delete(name));
    }
    this.columns = /** @type {Map<string, Column>} */ (new Map());
    this.field = this.filterField();
    this.selection = element('div', { class: 'selection', role: 'group', 'aria-label': 'Selected entities', hidden: true });
    this.stage = element('div', { class: 'stage fills' }, this.selection);
    this.pages = element('div', { class: 'pages' });
    main.classList.add('fills');
    main.append(element('div', { class: 'toolbar' }, this.field.element, this.actions()), this.explanation, this.stage, this.pages);
  }

  /** Begins something in the panel. */
  async edit(/** @type {(edits: typeof import('./edits.js'), scope: Scope) => unknown} */ begin) {
    const edits = await loaded(import('./edits.js'));
    return begin(edits, await this.scope.forPanel());
  }

  filterField() {
    let timer = 0;
    this.scope.signal.addEventListener('abort', () => clearTimeout(timer));
    return new FilterField(this.scope.route, {
      run: (filter) => go({ filter }),
      changed: (filter) => {
        clearTimeout(timer);
        timer = setTimeout(() => attempt(() => this.explain(filter)), PAUSE);
      },
      columns: () => this.columns,
      leave: () => this.grid?.go(0, this.canWrite ? 1 : 0),
    });
  }

  actions() {
    const { canWrite } = this;
    const { table, filter } = this.scope.route;
    const count = async () => {
      const { count } = await this.scope.call('count_entities', { table, filter: filter || null });
      say(`${entitiesText(count)}${filter ? ' match the filter' : ''}.`);
    };
    const act = (/** @type {'importEntities' | 'exportEntities' | 'deleteByFilter' | 'clearTable' | 'dropTable'} */ name) => () => (
      this.edit((edits, panel) => edits[name](panel)));
    const insert = button([icon('plus'), element('span', {}, 'Insert')], () => this.insert(), { class: 'primary', 'aria-label': 'Insert' });
    return element('div', { class: 'actions', role: 'group', 'aria-label': 'Actions' },
      picker(this.layout, () => new Map([...this.types].map(([name, types]) => [name, [...types].join(' or ')])), () => this.showColumns()),
      menu(iconButton('more', 'More actions'), 'More actions', [
        canWrite && { text: 'Import', icon: 'import', action: act('importEntities') },
        { text: 'Export', icon: 'export', action: act('exportEntities') },
        { text: 'Count exactly', icon: 'count', action: count },
        canWrite && null,
        canWrite && filter !== '' && { text: 'Delete by filter', icon: 'trash', isDanger: true, action: act('deleteByFilter') },
        canWrite && { text: 'Clear table', icon: 'clear', isDanger: true, action: act('clearTable') },
        canWrite && { text: 'Drop table', icon: 'trash', isDanger: true, action: act('dropTable') },
      ]), canWrite && insert);
  }

  insert() {
    const names = this.layout.sorted(this.types.keys());
    const typed = names.map((name) => /** @type {[string, string]} */ ([name, [...this.types.get(name) ?? []][0] ?? 'String']));
    return this.edit((edits, panel) => edits.insertEntity(panel, typed));
  }

  // --- How the filter is executed ----------------------------------------------------------------------------------

  /** Explains a filter. An error of the filter that runs is also one of the page, and is shown once. */
  async explain(/** @type {string} */ filter, /** @type {boolean} */ isOfPage = false) {
    const scope = this.plan.begin({ ...this.scope.route, filter });
    if (filter === '') {
      // There is nothing to explain about a table without a filter.
      this.explanation.replaceChildren();
      return;
    }
    const problem = await explain(this.explanation, scope, this.canWrite);
    if (problem && !isOfPage) {
      this.refuse(problem, filter);
    }
  }

  /** Shows an error of the filter below it, and marks its place. A filter that is still typed is unfinished. */
  refuse(/** @type {Problem} */ problem, /** @type {string} */ text) {
    const { field, explanation } = this;
    if (document.activeElement === field.input && text !== this.scope.route.filter && isUnfinished(text, problem.message)) {
      explanation.replaceChildren(element('span', {}, `Not finished. ${problem.hint ?? ''}`));
    } else {
      field.refuse(problem.message);
      explanation.replaceChildren(shown(problem));
    }
  }

  // --- The page ----------------------------------------------------------------------------------------------------

  async load(/** @type {View | null} */ before) {
    const { scope } = this;
    const old = before?.grid ?? null;
    const scrolled = old?.scrolled ?? { left: 0, top: 0 };
    if (old) {
      old.element.inert = true;
      this.stage.append(old.element);
      old.element.scrollTo(scrolled);
    }
    const explained = attempt(() => this.explain(scope.route.filter, true));
    const page = await this.read(old, explained);
    if (!page) {
      return;
    }
    // It is above the rows, which do not move once they are there.
    await explained;
    scope.signal.throwIfAborted();
    noteReading(this.explanation, scope.route, page);
    for (const [name, types] of typesOf(page.entities)) {
      this.types.set(name, new Set([...this.types.get(name) ?? [], ...types]));
    }
    this.columns = columnsOf(page.entities, this.types);
    const grid = this.gridOf(page.entities);
    this.grid = grid;
    old?.element.remove();
    this.stage.append(grid.element);
    grid.show();
    if (old && before?.address === this.address) {
      grid.element.scrollTo(scrolled);
      grid.at = { row: Math.min(old.at.row, page.entities.length - 1), column: old.at.column };
      grid.showRows();
      grid.markCell();
    }
    if (page.entities.length === 0) {
      this.showNothing(page);
    }
    this.showPages(page);
  }

  /**
   * Reads the page. Returns null if its filter is refused. The old rows stay until there are others.
   *
   * @returns {Promise<Page | null>}
   */
  async read(/** @type {Grid | null} */ old, /** @type {Promise<void>} */ explained) {
    const { route } = this.scope;
    const { table, filter, select, position } = route;
    const asked = { table, filter: filter || null, select: select || null, top: pageSize(), token: position || null };
    try {
      return await this.scope.call('query_page', asked);
    } catch (error) {
      const isRefused = error instanceof Problem && error.status >= 400 && error.status < 500;
      if (isRefused) {
        old?.element.remove();
      }
      if (isRefused && route.filter !== '') {
        await explained;
        this.refuse(error, route.filter);
        return null;
      }
      throw error;
    }
  }

  gridOf(/** @type {Entity[]} */ entities) {
    const { scope, canWrite, field } = this;
    const { table } = scope.route;
    /** @type {Grid} */
    const grid = new Grid(entities, this.layout, this.types.keys(), {
      canWrite,
      open: (entity) => this.edit((edits, panel) => edits.editEntity(panel, entity.partitionKey, entity.rowKey, canWrite, {
        at: entities.indexOf(entity), count: entities.length, open: (index) => grid.open(index),
      })),
      choose: (chosen) => this.showSelection(grid, chosen),
      filter: (condition) => go({ filter: and(field.filter, condition) }),
      ask: (name) => field.begin(and(field.filter, `${name} `)),
      arrange: () => this.showColumns(),
      edit: async (entity, name, type, cell) => (
        await closePanel() && this.edit((edits, panel) => edits.editCell(panel, entity, name, type, cell))),
      whole: async ({ partitionKey, rowKey }, name) => {
        const entity = await scope.call('get_entity', { table, partitionKey, rowKey });
        return entity.properties.find((/** @type {[string]} */ [one]) => one === name)?.[2] ?? '';
      },
    });
    addEventListener('panel-closed', () => grid.mark(null), { signal: scope.signal });
    return grid;
  }

  /** Shows the columns that the user has chosen, and writes them into the address, for a colleague. */
  showColumns() {
    const { layout } = this;
    const { select: loaded, position } = this.scope.route;
    const all = layout.sorted(this.types.keys());
    const wanted = all.filter((name) => !layout.hidden.has(name));
    const select = wanted.length === all.length ? '' : wanted.join(',');
    if (loaded === '' || (select !== '' && wanted.every((name) => loaded.split(',').includes(name)))) {
      history.replaceState(null, '', address({ select, position }));
      this.grid?.show();
    } else {
      go({ select });
    }
  }

  showSelection(/** @type {Grid} */ grid, /** @type {Set<Entity>} */ chosen) {
    this.selection.hidden = chosen.size === 0;
    if (chosen.size > 0) {
      this.selection.replaceChildren(element('strong', {}, `${number(chosen.size)} selected`),
        button('Copy keys', () => copy(keysOf(chosen), 'The keys are')),
        button('Delete', () => this.edit((edits, panel) => edits.deleteSelected(panel, [...chosen])), { class: 'danger' }),
        iconButton('close', 'Select none', () => {
          grid.chosen.clear();
          grid.showTicks();
        }));
    }
  }

  showNothing(/** @type {Page} */ { token }) {
    const { filter, position } = this.scope.route;
    const nothing = element('div', { class: 'nothing' }, element('p', { class: 'quiet' }, token
      ? 'Nothing found so far. There is more of the table to search.'
      : 'No entities.'));
    if (filter === '' && !token && !position && this.canWrite) {
      nothing.append(element('div', { class: 'tools' },
        button('Insert an entity', () => this.insert()),
        button('Import a file', () => this.edit((edits, panel) => edits.importEntities(panel)))));
    }
    this.stage.append(nothing);
    if (filter !== '' && !token) {
      attempt(() => explainNothing(nothing, this.scope, this.types));
    }
  }

  showPages(/** @type {Page} */ { entities, token }) {
    const size = element('select', { 'aria-label': 'Entities of a page', onchange: () => {
      remember('page', Number(size.value));
      go({});
    } }, ...SIZES.map((one) => element('option', { value: one, selected: one === pageSize() }, `${one} a page`)));
    this.pages.append(element('span', {}, `${entitiesText(entities.length)}${token ? ', and there are more' : ''}.`),
      element('span', { class: 'end' }),
      labelled('Page', size),
      ...(this.scope.route.position ? [button('First page', () => go({})), button('Back', () => history.back())] : []),
      ...(token ? [button(entities.length ? 'Next page' : 'Search on', () => go({ position: token }))] : []));
  }
}

/** The completions of the filter: all properties that were seen, with some of the values of the page. */
function columnsOf(/** @type {Entity[]} */ entities, /** @type {Map<string, Set<string>>} */ types) {
  const values = /** @type {Map<string, Set<string>>} */ (new Map());
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

/** Says why a filter has found nothing, if the first page of the table shows it. */
async function explainNothing(/** @type {HTMLElement} */ where, /** @type {Scope} */ scope, /** @type {Map<string, Set<string>>} */ types) {
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
