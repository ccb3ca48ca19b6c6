// The grid of entities. Its head, check boxes and keys do not scroll. Rows have one height, so only visible ones are
// elements: a thousand rows scroll as a hundred do. Tab reaches one cell; arrows move from cell to cell.

import { NARROWEST, WIDEST } from './columns.js';
import { attempt, button, element, follow, number, say } from './dom.js';
import { literal } from './filters.js';
import { icon } from './icons.js';
import { openMenu } from './menu.js';

/** @import { Entity, Property } from './api.js' */
/** @import { Columns } from './columns.js' */
/** @typedef {{name: string, types: string[], isKey: boolean}} Column */

/** Rows beyond those that can be seen: of the first ones there are few, so that they are soon there. */
const [SPARE, FIRST_SPARE] = [16, 4];
/** Widths of a column that the user has not changed, in pixels. */
const [LEAST, MOST] = [72, 320];
/** The column of the check boxes. */
const CHECK = 36;
const STEP = 16;

/** The keys come first and the Timestamp last. On a small window the keys leave room for the other columns. */
const KEYS = [['PartitionKey', 'String'], ['RowKey', 'String'], ['Timestamp', 'DateTime']];
const [SMALL, KEY_OF_SMALL] = [768, 96];

const short = (/** @type {string} */ type) => type.replace('Edm.', '');
const pen = document.createElement('canvas').getContext('2d');

/** A moment where the browser is, to the second. */
function moment(/** @type {string} */ text) {
  const time = new Date(text);
  const two = (/** @type {number} */ part) => String(part).padStart(2, '0');
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${
    [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':')}`;
}

/** Returns the properties of entities, each with its types: those first that most entities have, then as they are first seen. */
export function typesOf(/** @type {Entity[]} */ entities) {
  const found = /** @type {Map<string, {count: number, types: Set<string>}>} */ (new Map());
  for (const [name, type] of entities.flatMap(({ properties }) => properties)) {
    const one = found.get(name) ?? { count: 0, types: new Set() };
    one.count += 1;
    one.types.add(short(type));
    found.set(name, one);
  }
  return new Map([...found].sort((a, b) => b[1].count - a[1].count).map(([name, { types }]) => [name, types]));
}

/** A text in a box of its own, so that no direction of writing gets out of it. An empty one can be seen. */
function text(/** @type {string} */ value) {
  return value === '' ? element('span', { class: 'empty' }, '(empty)') : element('bdi', {}, value);
}

/** Gives a text to the clipboard. */
export async function copy(/** @type {string} */ text, /** @type {string} */ what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied.`);
  } catch {
    say('The browser does not let this page copy.');
  }
}

/** The keys of entities as lines, with a tabulator between the two. */
export const keysOf = (/** @type {Iterable<Entity>} */ entities) => [...entities]
  .map(({ partitionKey, rowKey }) => `${partitionKey}\t${rowKey}`).join('\n');

export class Grid {
  /**
   * @param {Entity[]} entities
   * @param {Columns} columns
   * @param {Iterable<string>} names the properties of the table that were seen, in their order
   * @param {object} actions
   * @param {boolean} actions.canWrite
   * @param {(entity: Entity) => Promise<unknown>} actions.open
   * @param {(chosen: Set<Entity>) => void} actions.choose
   * @param {(condition: string) => void} actions.filter
   * @param {(name: string) => void} actions.ask begins a condition on a property
   * @param {() => void} actions.arrange after a change of the columns
   * @param {(entity: Entity, name: string) => Promise<string>} actions.whole the whole of a value that is cut
   * @param {(entity: Entity, name: string, type: string, cell: HTMLElement) => unknown} actions.edit a value, at its cell
   */
  constructor(entities, columns, names, actions) {
    this.entities = entities;
    this.layout = columns;
    this.actions = actions;
    this.chosen = /** @type {Set<Entity>} */ (new Set());
    this.opened = /** @type {Entity | null} */ (null);
    this.values = entities.map(({ properties }) => new Map(properties.map((property) => [property[0], property])));
    this.types = typesOf(entities);
    this.names = [...names].filter((name) => this.types.has(name));
    this.columns = /** @type {Column[]} */ ([]);
    /** The number of columns before those of the entities: that of the check boxes. */
    this.offset = actions.canWrite ? 1 : 0;
    /** The cell that Tab reaches: row -1 is the head. */
    this.at = { row: entities.length > 0 ? 0 : -1, column: this.offset };
    /** The height of a row, in pixels, and the rows that are elements. */
    this.row = 0;
    this.first = 0;
    this.last = 0;
    this.all = element('input', { type: 'checkbox', 'aria-label': 'Select all', tabindex: '-1', onchange: () => this.tickAll() });
    this.lastTicked = 0;
    this.rows = /** @type {Map<number, HTMLTableRowElement>} */ (new Map());
    this.body = element('tbody');
    this.head = element('thead');
    this.widths = element('colgroup');
    this.table = element('table', { role: 'grid', 'aria-label': 'Entities', 'aria-rowcount': entities.length + 1 },
      this.widths, this.head, this.body);
    this.room = element('div', { class: 'rows' }, this.table);
    this.element = element('div', { class: 'grid fills', tabindex: '-1' }, this.room);
    /** How far it is scrolled: an element that leaves the page forgets it. */
    this.scrolled = { left: 0, top: 0 };
    this.element.addEventListener('scroll', () => {
      this.scrolled = { left: this.element.scrollLeft, top: this.element.scrollTop };
      this.showRows();
    }, { passive: true });
    new ResizeObserver(() => this.showRows()).observe(this.element);
    this.element.addEventListener('keydown', (event) => this.press(event));
    this.element.addEventListener('focusin', (event) => this.enter(event));
    this.element.addEventListener('click', (event) => this.click(event));
    this.element.addEventListener('dblclick', (event) => this.openAt(event));
  }

  /** Makes head and rows, and makes them anew after a change of the columns. The grid is in the page then. */
  show() {
    const names = this.layout.sorted(this.names).filter((name) => !this.layout.hidden.has(name));
    const keys = KEYS.map(([name = '', type = '']) => ({ name, types: [type], isKey: true }));
    const others = names.map((name) => ({ name, types: [...(this.types.get(name) ?? [])].sort(), isKey: false }));
    this.columns = [...keys.slice(0, 2), ...others, ...keys.slice(2)];
    this.at.column = Math.min(this.at.column, this.columns.length + this.offset - 1);
    this.table.setAttribute('aria-colcount', String(this.columns.length + this.offset));
    this.head.replaceChildren(element('tr', { 'aria-rowindex': '1' },
      this.actions.canWrite && element('td', { class: 'check' }, this.all),
      ...this.columns.map((column, index) => this.headOf(column, index))));
    this.row = Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')) || 28;
    this.setWidths();
    this.body.replaceChildren();
    this.rows.clear();
    this.showRows();
    this.showTicks();
  }

  headOf(/** @type {Column} */ { name, types, isKey }, /** @type {number} */ index) {
    const grip = element('span', { class: 'width', draggable: 'true', 'aria-hidden': 'true', title: 'Drag to change the width' });
    // The head is dragged to another place, and its edge is not.
    grip.addEventListener('dragstart', (event) => {
      event.preventDefault();
      event.stopPropagation();
    });
    grip.addEventListener('pointerdown', (event) => this.drag(event, name));
    grip.addEventListener('dblclick', (event) => {
      event.stopPropagation();
      this.resize(name, null);
    });
    const made = element('th', {
      scope: 'col', tabindex: '-1', 'data-column': index + this.offset, title: name,
      class: types.every((type) => /^Int|^Double/.test(type)) ? 'number' : '',
    },
      element('span', { class: 'name' }, isKey && name !== 'Timestamp' && icon('key'), element('bdi', {}, name), ' ',
        !isKey && element('small', {}, types.join(' or '))), grip);
    if (!isKey) {
      this.layout.carry(made, name, () => this.layout.sorted(this.names), () => this.actions.arrange());
    }
    return made;
  }

  /** The width that the head and the longest value of the page ask for. */
  widthOf(/** @type {Column} */ { name, types, isKey }) {
    const chosen = this.layout.widths.get(name);
    if (chosen !== undefined) {
      return Math.max(NARROWEST, Math.min(WIDEST, chosen));
    }
    let longest = '';
    for (const [index, entity] of this.entities.entries()) {
      const shown = isKey ? keyText(entity, name) : this.values[index]?.get(name)?.[2] ?? '';
      if (shown.length > longest.length) {
        longest = shown;
      }
    }
    const { fontFamily, fontSize } = getComputedStyle(document.body);
    const measured = (/** @type {string} */ text, /** @type {string} */ font) => {
      if (pen === null) {
        return 8 * text.length;
      }
      pen.font = font;
      return pen.measureText(text.slice(0, 200)).width;
    };
    const own = `500 ${fontSize} ${fontFamily}`;
    const mono = `400 12px ${getComputedStyle(document.documentElement).getPropertyValue('--mono')}`;
    const type = isKey ? '' : ` ${types.join(' or ')}`;
    const head = measured(name, own) + measured(type, `500 11px ${fontFamily}`) + (isKey ? 56 : 36);
    const isMono = types.some((one) => one === 'Guid' || one === 'Binary');
    const content = measured(longest, isMono ? mono : own) + 28 + (types.length > 1 ? 56 : 0);
    const most = isKey && name !== 'Timestamp' && innerWidth <= SMALL ? KEY_OF_SMALL : MOST;
    return Math.ceil(Math.max(LEAST, Math.min(most, Math.max(head, content))));
  }

  setWidths() {
    const widths = [...(this.actions.canWrite ? [CHECK] : []), ...this.columns.map((column) => this.widthOf(column))];
    const total = widths.reduce((sum, width) => sum + width, 0);
    this.widths.replaceChildren(...widths.map((width) => {
      const made = element('col');
      made.style.width = `${width}px`;
      return made;
    }));
    this.table.style.width = `${total}px`;
    // The places of the keys, which do not scroll.
    const [check, key] = [this.offset && innerWidth > SMALL ? CHECK : 0, widths[this.offset] ?? 0];
    this.table.style.setProperty('--first', `${check}px`);
    this.table.style.setProperty('--second', `${check + key}px`);
  }

  drag(/** @type {PointerEvent} */ event, /** @type {string} */ name) {
    const before = /** @type {HTMLElement} */ (event.currentTarget).closest('th')?.offsetWidth ?? 0;
    follow(event, (way) => {
      this.layout.widths.set(name, Math.max(NARROWEST, Math.min(WIDEST, before + way)));
      this.setWidths();
    }, () => this.layout.keep());
  }

  /** Changes the width of a column, or gives it that of its content. */
  resize(/** @type {string} */ name, /** @type {number | null} */ by) {
    const column = this.columns.find((one) => one.name === name);
    if (by === null || !column) {
      this.layout.widths.delete(name);
    } else {
      this.layout.widths.set(name, Math.max(NARROWEST, Math.min(WIDEST, this.widthOf(column) + by)));
    }
    this.layout.keep();
    this.setWidths();
  }

  /** Shows the rows that can be seen, and some more, so that few scrolls need others. Those that are there stay, and keep the focus. */
  showRows() {
    const count = this.entities.length;
    const from = Math.floor(this.element.scrollTop / this.row);
    const to = Math.min(count, Math.ceil((this.element.scrollTop + this.element.clientHeight) / this.row));
    if (from >= this.first && to <= this.last && this.rows.size > 0) {
      return;
    }
    const spare = this.rows.size === 0 ? FIRST_SPARE : SPARE;
    const first = Math.max(0, from - spare);
    const last = Math.min(count, to + spare);
    this.first = first;
    this.last = last;
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        if (row.contains(document.activeElement)) {
          this.element.focus({ preventScroll: true });
        }
        row.remove();
        this.rows.delete(index);
      }
    }
    let next = /** @type {Element | null} */ (null);
    for (let index = last - 1; index >= first; index -= 1) {
      let row = this.rows.get(index);
      if (!row) {
        row = this.rowOf(index);
        this.rows.set(index, row);
        this.body.insertBefore(row, next);
      }
      next = row;
    }
    this.room.style.paddingTop = `${first * this.row}px`;
    this.room.style.height = `${(this.entities.length + 1) * this.row}px`;
    this.markCell();
  }

  /** @param {number} index */
  rowOf(index) {
    const entity = /** @type {Entity} */ (this.entities[index]);
    const { partitionKey, rowKey, timestamp } = entity;
    const place = (/** @type {number} */ column) => ({ 'data-column': column + this.offset, tabindex: '-1' });
    const open = button(text(partitionKey), () => this.open(index), {
      class: 'open', 'aria-label': `Open ${partitionKey} ${rowKey}`, ...place(0) });
    const box = element('input', {
      type: 'checkbox', 'aria-label': `Select ${partitionKey} ${rowKey}`, 'data-column': '0', tabindex: '-1' });
    box.checked = this.chosen.has(entity);
    box.addEventListener('click', (event) => this.tick(index, box.checked, event.shiftKey));
    return element('tr', {
      'aria-rowindex': index + 2, 'data-row': index, class: box.checked ? 'chosen' : '',
      'aria-current': entity === this.opened ? 'true' : null,
    },
    this.actions.canWrite && element('td', { class: 'check' }, box),
    element('td', { class: 'key', title: partitionKey }, open),
    ...this.columns.slice(1).map(({ name, types, isKey }, column) => (isKey
      ? element('td', { class: name === 'RowKey' ? 'key' : 'quiet', title: name === 'RowKey' ? rowKey : timestamp, ...place(column + 1) },
        text(keyText(entity, name)))
      : this.cellOf(this.values[index]?.get(name), types.length > 1, place(column + 1)))));
  }

  /**
   * @param {Property | undefined} property
   * @param {boolean} isMixed whether the column has values of several types
   * @param {Record<string, unknown>} attributes
   */
  cellOf(property, isMixed, attributes) {
    if (!property) {
      return element('td', { class: 'absent', ...attributes });
    }
    const [, type, value, length] = property;
    const isCut = isCutOff(property);
    return element('td', { class: `type-${short(type)}${isMixed ? ' mixed' : ''}`, title: value.length > 12 ? value : null, ...attributes },
      text(isCut ? `${value}…` : value),
      isCut && element('small', {}, `${number(length)} characters`),
      isMixed && element('small', {}, short(type)));
  }

  // --- The cell that has the focus ---------------------------------------------------------------------------------

  /** The element of a cell that takes the focus. */
  cell({ row, column } = this.at) {
    const line = row < 0 ? this.head.firstElementChild : this.rows.get(row);
    const found = line?.querySelector(`[data-column="${column}"]`) ?? line?.children[column]?.querySelector('input') ?? null;
    return /** @type {HTMLElement | null} */ (found);
  }

  /** Lets Tab reach the one cell. */
  markCell() {
    this.table.querySelectorAll('[tabindex="0"]').forEach((one) => one.setAttribute('tabindex', '-1'));
    this.cell()?.setAttribute('tabindex', '0');
  }

  /** Scrolls to a row that cannot be seen. */
  reveal(/** @type {number} */ row) {
    const top = row * this.row;
    const { scrollTop, clientHeight } = this.element;
    if (row >= 0 && top < scrollTop) {
      this.element.scrollTop = top;
    } else if (row >= 0 && top + 2 * this.row > scrollTop + clientHeight) {
      this.element.scrollTop = top + 2 * this.row - clientHeight;
    }
    this.showRows();
  }

  /** Goes to a cell. */
  go(/** @type {number} */ row, /** @type {number} */ column) {
    const last = this.columns.length + this.offset - 1;
    this.at = { row: Math.max(-1, Math.min(row, this.entities.length - 1)), column: Math.max(0, Math.min(column, last)) };
    this.reveal(this.at.row);
    this.markCell();
    const cell = this.cell();
    cell?.focus({ preventScroll: true });
    (cell?.closest('td, th') ?? cell)?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }

  /** @param {FocusEvent} event */
  enter(event) {
    const cell = /** @type {Element} */ (event.target);
    const line = cell.closest('tr');
    if (line) {
      this.at = {
        row: line.dataset['row'] === undefined ? -1 : Number(line.dataset['row']),
        column: Number(cell.getAttribute('data-column') ?? 0),
      };
      this.markCell();
    }
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const { row, column } = this.at;
    const { key } = event;
    const name = this.columns[column - this.offset]?.name;
    const isCommand = event.ctrlKey || event.metaKey;
    if (row < 0 && name !== undefined && event.shiftKey && (key === 'ArrowLeft' || key === 'ArrowRight')) {
      this.resize(name, key === 'ArrowLeft' ? -STEP : STEP);
      event.preventDefault();
      return;
    }
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.row) - 2);
    const target = /** @type {Record<string, [number, number]>} */ ({
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      PageDown: [row + page, column], PageUp: [Math.max(row - page, 0), column],
      Home: [isCommand ? 0 : row, 0], End: [isCommand ? this.entities.length - 1 : row, Infinity],
    })[key];
    if (target) {
      this.go(...target);
      event.preventDefault();
      return;
    }
    const does = isCommand && key !== 'c' ? undefined : /** @type {Record<string, () => unknown>} */ ({
      Enter: () => this.open(row),
      F2: () => this.edit(),
      ' ': () => this.tick(row, !this.chosen.has(/** @type {Entity} */ (this.entities[row])), false),
      c: () => this.copyCell(row, column),
      k: () => copy(keysOf(this.entities.slice(row, row + 1)), 'The keys are'),
      '=': () => this.filterBy('eq'),
      '>': () => this.filterBy('ge'),
      '<': () => this.filterBy('le'),
      ContextMenu: () => this.menu(),
    })[key];
    if (row < 0 && name !== undefined && (key === 'Enter' || key === ' ' || key === 'ContextMenu')) {
      this.headMenu();
      event.preventDefault();
      return;
    }
    // Enter and Space on a button or a check box are its own.
    const isOwn = /** @type {Element} */ (event.target).matches('button, input') && (key === 'Enter' || key === ' ');
    const isSelection = isCommand && String(getSelection()) !== '';
    if (does && row >= 0 && !isSelection && !isOwn && !event.altKey) {
      attempt(does, this.element);
      event.preventDefault();
    }
  }

  // --- Actions on rows and cells -----------------------------------------------------------------------------------

  /** @param {number} index */
  async open(index) {
    const entity = this.entities[index];
    if (entity) {
      await this.actions.open(entity);
      this.mark(entity);
      this.reveal(index);
    }
  }

  /** Marks the row of the entity that is open. */
  mark(/** @type {Entity | null} */ entity) {
    this.opened = entity;
    for (const [index, row] of this.rows) {
      row.ariaCurrent = entity !== null && this.entities[index] === entity ? 'true' : null;
    }
  }

  /** Ticks a row, or all rows from the last ticked one on. */
  tick(/** @type {number} */ index, /** @type {boolean} */ isTicked, /** @type {boolean} */ isRange) {
    if (!this.actions.canWrite) {
      return;
    }
    const [from, to] = isRange ? [Math.min(index, this.lastTicked), Math.max(index, this.lastTicked)] : [index, index];
    for (const entity of this.entities.slice(from, to + 1)) {
      if (isTicked) {
        this.chosen.add(entity);
      } else {
        this.chosen.delete(entity);
      }
    }
    this.lastTicked = index;
    this.showTicks();
  }

  tickAll() {
    this.chosen = new Set(this.all.checked ? this.entities : []);
    this.showTicks();
  }

  showTicks() {
    for (const [index, row] of this.rows) {
      const isTicked = this.chosen.has(/** @type {Entity} */ (this.entities[index]));
      const box = row.querySelector('input');
      row.classList.toggle('chosen', isTicked);
      if (box) {
        box.checked = isTicked;
      }
    }
    this.all.checked = this.chosen.size > 0 && this.chosen.size === this.entities.length;
    this.all.indeterminate = this.chosen.size > 0 && !this.all.checked;
    this.actions.choose(this.chosen);
  }

  /** The actions on a column. */
  headMenu() {
    const column = this.columns[this.at.column - this.offset];
    const cell = this.cell();
    if (!column || !cell) {
      return;
    }
    const { name, isKey } = column;
    const shown = this.columns.filter((one) => !one.isKey).map((one) => one.name);
    const arrange = (/** @type {number} */ by) => {
      this.actions.arrange();
      this.go(-1, this.at.column + by);
    };
    const move = (/** @type {'back' | 'forward'} */ icon, /** @type {string} */ where, /** @type {number} */ by) => {
      const other = shown[shown.indexOf(name) + by];
      const names = this.layout.sorted(this.names);
      return !isKey && other !== undefined && { icon, text: `Move ${where}`, action: () => {
        this.layout.move(names, name, names.indexOf(other));
        arrange(by);
      } };
    };
    openMenu(cell, 'The column', [
      { icon: 'filter', text: `Filter by ${name}`, action: () => this.actions.ask(name) },
      null,
      move('back', 'to the left', -1), move('forward', 'to the right', 1),
      { icon: 'columns', text: 'Width of its content', action: () => this.resize(name, null) },
      !isKey && { icon: 'close', text: `Hide ${name}`, action: () => {
        this.layout.hidden.add(name);
        this.layout.keep();
        arrange(0);
      } },
      // Users look here for sorting.
      null, { note: 'Rows are in the order of their keys. The service has no other order.' }]);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const head = /** @type {HTMLElement} */ (event.target).closest('thead th');
    if (head instanceof HTMLElement && !/** @type {Element} */ (event.target).matches('.width')) {
      head.focus({ preventScroll: true });
      this.headMenu();
      return;
    }
    const cell = /** @type {HTMLElement} */ (event.target).closest('tbody td');
    const isOwn = /** @type {Element} */ (event.target).closest('button, input') !== null;
    // The second click is one of two.
    if (cell instanceof HTMLElement && event.detail < 2 && !isOwn && String(getSelection()) === '') {
      this.at = { row: Number(cell.closest('tr')?.dataset['row']), column: [...(cell.parentElement?.children ?? [])].indexOf(cell) };
      this.cell()?.focus({ preventScroll: true });
      if (!cell.classList.contains('check')) {
        this.menu();
      }
    }
  }

  /** Edits the value that is clicked twice, and opens the entity at its keys, or if it cannot be edited. */
  openAt(/** @type {MouseEvent} */ event) {
    const target = /** @type {Element} */ (event.target);
    if (target.closest('tbody td') && !target.closest('button, input')) {
      attempt(() => (this.isEditable ? this.edit() : this.open(this.at.row)), this.element);
    }
  }

  /** Whether the cell with the focus is a value that can be edited. */
  get isEditable() {
    return this.actions.canWrite && this.at.row >= 0 && this.columns[this.at.column - this.offset]?.isKey === false;
  }

  edit() {
    const column = this.columns[this.at.column - this.offset];
    const entity = this.entities[this.at.row];
    const cell = this.cell();
    return this.isEditable && column && entity && cell && this.actions.edit(entity, column.name, column.types[0] ?? 'String', cell);
  }

  /** The name, the type and the text of the cell with the focus; the property if it is none of the keys. */
  value() {
    const column = this.columns[this.at.column - this.offset];
    const entity = this.entities[this.at.row];
    if (!column || !entity) {
      return null;
    }
    const { name } = column;
    if (column.isKey) {
      const value = { PartitionKey: entity.partitionKey, RowKey: entity.rowKey }[name] ?? entity.timestamp;
      return { entity, name, type: column.types[0] ?? '', value, isCut: false };
    }
    const property = this.values[this.at.row]?.get(name);
    return property ? { entity, name, type: short(property[1]), value: property[2], isCut: isCutOff(property) } : null;
  }

  /** The condition that a cell adds to the filter, if its value can be written there. */
  condition(/** @type {string} */ operator) {
    const found = this.value();
    const written = found && !found.isCut ? literal(found.type, found.value) : null;
    return found && written !== null && /^[\p{L}_][\p{L}\p{N}_]*$/u.test(found.name) ? `${found.name} ${operator} ${written}` : null;
  }

  filterBy(/** @type {string} */ operator) {
    const condition = this.condition(operator);
    if (condition !== null) {
      this.actions.filter(condition);
    }
  }

  /** The actions on a cell. */
  menu() {
    const cell = this.cell();
    const { row, column } = this.at;
    if (!cell) {
      return;
    }
    const conditions = /** @type {const} */ ([['eq', '='], ['ge', '>'], ['le', '<']]).flatMap(([operator, key]) => {
      const condition = this.condition(operator);
      return condition === null ? [] : [{
        icon: /** @type {const} */ ('filter'), key, text: condition, action: () => this.actions.filter(condition) }];
    });
    openMenu(cell, 'The cell', [
      ...conditions, conditions.length > 0 && null,
      this.value() !== null && { icon: 'copy', key: 'C', text: 'Copy the value', action: () => this.copyCell(row, column) },
      { icon: 'key', key: 'K', text: 'Copy the keys', action: () => copy(keysOf(this.entities.slice(row, row + 1)), 'The keys are') },
      this.isEditable && { icon: 'pencil', key: 'F2', text: 'Edit the value', action: () => this.edit() },
      { icon: 'forward', key: 'Enter', text: 'Open the entity', action: () => this.open(row) }]);
  }

  async copyCell(/** @type {number} */ row, /** @type {number} */ column) {
    this.at = { row, column };
    const found = this.value();
    if (found) {
      await copy(found.isCut ? await this.actions.whole(found.entity, found.name) : found.value, 'The value is');
    }
  }
}

/** The text in a cell of a key or of the Timestamp. */
function keyText(/** @type {Entity} */ { partitionKey, rowKey, timestamp }, /** @type {string} */ name) {
  return name === 'PartitionKey' ? partitionKey : name === 'RowKey' ? rowKey : moment(timestamp);
}

function isCutOff(/** @type {Property} */ [, , value, length]) {
  return value.length < length && [...value].length < length;
}
