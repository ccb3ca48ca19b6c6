// The columns of a table's grid: which are shown, in which order, and how wide. The browser keeps a user's changes.

import { element } from './dom.js';
import { icon } from './icons.js';
import { recall, remember, texts } from './memory.js';
import { iconButton, opens } from './menu.js';

/** How many tables are kept. */
const KEPT = 100;
const KEY = 'columns';
/** Widths, in pixels. */
export const NARROWEST = 48;
export const WIDEST = 1200;

/** @typedef {{account: string, table: string, order: string[], hidden: string[], widths: [string, number][]}} Kept */

function kept(/** @type {unknown} */ one) {
  const { account, table, order, hidden, widths } = /** @type {Record<string, unknown>} */ (one ?? {});
  return {
    account: String(account),
    table: String(table),
    order: texts(order),
    hidden: texts(hidden),
    widths: Array.isArray(widths) ? widths.filter((pair) => typeof pair?.[0] === 'string' && Number.isFinite(pair?.[1])) : [],
  };
}

/** The columns of a table as a user wants them. */
export class Columns {
  constructor(/** @type {string} */ account, /** @type {string} */ table) {
    const all = recall(KEY);
    const others = (Array.isArray(all) ? all : []).map(kept);
    const own = others.find((one) => one.account === account && one.table === table) ?? kept({ account, table });
    this.place = { account, table };
    this.order = own.order;
    this.hidden = new Set(own.hidden);
    this.widths = new Map(own.widths);
    /** The column that is dragged now. */
    this.carried = '';
  }

  /** Puts names into the user's order; others follow as they are. */
  sorted(/** @type {Iterable<string>} */ names) {
    const rank = new Map(this.order.map((name, index) => [name, index]));
    const end = this.order.length;
    return [...names].sort((a, b) => (rank.get(a) ?? end) - (rank.get(b) ?? end));
  }

  /** Moves a name to a place among others. */
  move(/** @type {string[]} */ names, /** @type {string} */ name, /** @type {number} */ to) {
    const rest = names.filter((one) => one !== name);
    rest.splice(to, 0, name);
    this.order = rest;
    this.keep();
  }

  /** Lets a user drag the element of a column to the place of another. The class `over` marks that place. */
  carry(/** @type {HTMLElement} */ made, /** @type {string} */ name, /** @type {() => string[]} */ names, /** @type {() => void} */ moved) {
    made.draggable = true;
    const mark = (/** @type {boolean} */ isOver) => made.classList.toggle('over', isOver);
    made.addEventListener('dragstart', () => {
      this.carried = name;
    });
    made.addEventListener('dragend', () => {
      this.carried = '';
    });
    made.addEventListener('dragover', (event) => {
      if (this.carried !== '') {
        event.preventDefault();
        mark(this.carried !== name);
      }
    });
    made.addEventListener('dragleave', () => mark(false));
    made.addEventListener('drop', (event) => {
      event.preventDefault();
      mark(false);
      if (this.carried !== '' && this.carried !== name) {
        this.move(names(), this.carried, names().indexOf(name));
        moved();
      }
    });
  }

  keep() {
    const all = recall(KEY);
    const others = (Array.isArray(all) ? all : []).map(kept)
      .filter(({ account, table }) => account !== this.place.account || table !== this.place.table);
    const own = { ...this.place, order: this.order, hidden: [...this.hidden], widths: [...this.widths] };
    remember(KEY, [own, ...others].slice(0, KEPT));
  }
}

/** A button that looks like a link. */
const link = (/** @type {string} */ text, /** @type {() => void} */ onclick) => (
  element('button', { type: 'button', class: 'link', onclick }, text));

/** A button that opens the choice of columns. */
export function picker(/** @type {Columns} */ columns, /** @type {() => Map<string, string>} */ known, /** @type {() => void} */ changed) {
  const opener = element('button', { type: 'button', id: 'columns' }, icon('columns'), 'Columns');
  const fill = () => {
    const types = known();
    const list = element('ul', { class: 'column-choice' });
    const change = () => {
      columns.keep();
      changed();
      show();
    };
    const move = (/** @type {string} */ name, /** @type {number} */ by) => {
      const names = columns.sorted(types.keys());
      columns.move(names, name, Math.max(0, names.indexOf(name) + by));
      change();
      /** @type {HTMLElement | null} */ (list.querySelector(`[data-name=${CSS.escape(name)}] button[data-by="${by}"]`))?.focus();
    };
    const item = (/** @type {string} */ name) => {
      const box = element('input', { type: 'checkbox' });
      box.checked = !columns.hidden.has(name);
      box.addEventListener('change', () => {
        if (box.checked) {
          columns.hidden.delete(name);
        } else {
          columns.hidden.add(name);
        }
        change();
        /** @type {HTMLElement | null} */ (list.querySelector(`[data-name=${CSS.escape(name)}] input`))?.focus();
      });
      const step = (/** @type {'up' | 'down'} */ to, /** @type {number} */ by) => {
        const made = iconButton(to, `Move ${name} ${to}`, () => move(name, by));
        made.dataset['by'] = String(by);
        return made;
      };
      const row = element('li', { 'data-name': name }, icon('grip'),
        element('label', { class: 'inline' }, box, element('bdi', {}, name), element('small', {}, types.get(name))),
        step('up', -1), step('down', 1));
      columns.carry(row, name, () => columns.sorted(types.keys()), change);
      return row;
    };
    const all = (/** @type {boolean} */ isShown) => () => {
      columns.hidden = new Set(isShown ? [] : types.keys());
      change();
    };
    const search = element('input', { type: 'search', placeholder: 'Find a column', 'aria-label': 'Find a column' });
    const show = () => {
      const wanted = search.value.toLowerCase();
      list.replaceChildren(...columns.sorted(types.keys()).filter((name) => name.toLowerCase().includes(wanted)).map(item));
    };
    search.addEventListener('input', show);
    show();
    return [search, list, element('div', { class: 'tools' }, link('Show all', all(true)), link('Show none', all(false)),
      link('Reset widths and order', () => {
        columns.widths.clear();
        columns.order = [];
        change();
      }))];
  };
  return opens(opener, { role: 'dialog', 'aria-label': 'Columns' }, fill);
}
