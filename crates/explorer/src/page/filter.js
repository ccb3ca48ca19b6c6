// The field of the filter: it completes the typed text, marks the place of an error, and knows earlier filters.

import { paint, partsOfFilter } from './colours.js';
import { button, element } from './dom.js';
import { completions, fault } from './filters.js';
import { icon } from './icons.js';
import { recall, remember } from './memory.js';
import { iconButton, opens, place } from './menu.js';

/** @typedef {{account: string, table: string, filter: string, isSaved: boolean}} Kept */

const KEY = 'filters';
/** How many filters are kept beside the saved ones: of a table, and of all. */
const [OF_TABLE, OF_ALL] = [20, 500];

/** @returns {Kept[]} the last one first */
function keptFilters() {
  const all = recall(KEY);
  return (Array.isArray(all) ? all : []).flatMap((one) => (typeof one?.filter === 'string'
    ? [{ account: String(one.account), table: String(one.table), filter: one.filter, isSaved: one.isSaved === true }] : []));
}

/** The filters of one table that the browser keeps. */
class EarlierFilters {
  constructor(/** @type {string} */ account, /** @type {string} */ table) {
    this.account = account;
    this.table = table;
  }

  isOwn(/** @type {Kept} */ { account, table }) {
    return account === this.account && table === this.table;
  }

  own() {
    return keptFilters().filter((one) => this.isOwn(one));
  }

  /** Puts a filter to the front, saved or not, or as it is; null forgets it. */
  put(/** @type {string} */ filter,
    /** @type {boolean | null} */ isSaved = this.own().some((one) => one.filter === filter && one.isSaved)) {
    const rest = keptFilters().filter((one) => !(this.isOwn(one) && one.filter === filter));
    const first = isSaved === null ? [] : [{ account: this.account, table: this.table, filter, isSaved }];
    let ofTable = 0;
    remember(KEY, [...first, ...rest].filter((one) => one.isSaved || !this.isOwn(one) || (ofTable += 1) <= OF_TABLE).slice(0, OF_ALL));
  }
}

export class FilterField {
  /**
   * @param {import('./route.js').Route} route
   * @param {object} actions
   * @param {(filter: string) => void} actions.run
   * @param {(filter: string) => void} actions.changed what the user types
   * @param {() => Map<string, import('./filters.js').Column>} actions.columns
   * @param {() => void} actions.leave goes to the grid
   */
  constructor({ account, table, filter }, actions) {
    this.actions = actions;
    this.kept = new EarlierFilters(account, table);
    this.input = element('input', {
      id: 'filter', value: filter, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', enterkeyhint: 'search',
      placeholder: "PartitionKey eq 'Sales' and Age gt 30", 'aria-describedby': 'explanation',
      role: 'combobox', 'aria-expanded': 'false', 'aria-controls': 'completions', 'aria-autocomplete': 'list', 'aria-label': 'Filter',
    });
    this.marks = element('div', { class: 'marks mono', 'aria-hidden': 'true' });
    this.list = element('ul', {
      id: 'completions', class: 'menu completions', popover: 'manual', role: 'listbox', 'aria-label': 'Completions' });
    this.items = /** @type {import('./filters.js').Completion[]} */ ([]);
    this.from = 0;
    this.active = -1;
    this.clear = iconButton('close', 'Clear the filter', () => {
      this.input.value = '';
      this.actions.run('');
    });
    this.element = element('form', { class: 'filter', role: 'search', onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      this.run();
    } }, icon('filter'), element('div', { class: 'text' }, this.marks, this.input), this.clear, this.history(),
    element('button', { class: 'ghost run' }, 'Run'), this.list);
    this.input.addEventListener('input', () => {
      this.accept();
      this.complete();
      this.actions.changed(this.filter);
    });
    this.input.addEventListener('scroll', () => this.follow());
    this.input.addEventListener('keydown', (event) => this.press(event));
    this.input.addEventListener('blur', () => this.close());
    this.accept();
  }

  get filter() {
    return this.input.value.trim();
  }

  /** Writes a filter that the user goes on with. */
  begin(/** @type {string} */ filter, /** @type {number} */ caret = filter.length) {
    this.input.value = filter;
    this.input.focus();
    this.input.setSelectionRange(caret, caret);
    this.input.dispatchEvent(new Event('input', { bubbles: true }));
  }

  run() {
    this.close();
    if (this.filter !== '') {
      this.kept.put(this.filter);
    }
    this.actions.run(this.filter);
  }

  // --- Errors ------------------------------------------------------------------------------------------------------

  /** Marks the place of an error. */
  refuse(/** @type {string} */ message) {
    const text = this.input.value;
    const found = fault(text, message);
    this.input.setAttribute('aria-invalid', 'true');
    if (found) {
      const [start, end] = found;
      this.marks.replaceChildren(text.slice(0, start), element('mark', {}, text.slice(start, end) || '  '), text.slice(end));
      this.follow();
    }
  }

  accept() {
    this.clear.hidden = this.input.value === '';
    this.input.removeAttribute('aria-invalid');
    this.colour();
  }

  colour() {
    paint(this.marks, this.input.value, partsOfFilter(this.input.value));
    this.follow();
  }

  follow() {
    this.marks.scrollLeft = this.input.scrollLeft;
  }

  // --- Completions -------------------------------------------------------------------------------------------------

  /** Shows the texts that can be at the caret. */
  complete() {
    const caret = this.input.selectionStart ?? this.input.value.length;
    if (document.activeElement !== this.input || caret !== this.input.selectionEnd || /^\w/.test(this.input.value.slice(caret))) {
      this.close();
      return;
    }
    const { from, items } = completions(this.input.value.slice(0, caret), this.actions.columns());
    this.from = from;
    this.items = items;
    if (items.length === 0) {
      this.close();
      return;
    }
    this.list.replaceChildren(...items.map(({ text, note }, index) => {
      const item = element('li', { role: 'option', id: `completion-${index}`, 'aria-selected': 'false' },
        element('bdi', { class: 'mono' }, text), element('small', {}, note));
      // The field keeps the focus.
      item.addEventListener('pointerdown', (event) => {
        event.preventDefault();
        this.take(index);
      });
      return item;
    }));
    this.mark(-1);
    if (!this.list.matches(':popover-open')) {
      this.list.showPopover();
    }
    this.input.setAttribute('aria-expanded', 'true');
    place(this.list, this.input);
    // Below the text that it completes.
    this.marks.textContent = this.input.value.slice(0, from);
    const range = document.createRange();
    range.selectNodeContents(this.marks);
    const { left } = this.element.getBoundingClientRect();
    const wanted = Math.max(left, range.getBoundingClientRect().right - this.input.scrollLeft - 12);
    this.list.style.left = `${Math.max(8, Math.min(wanted, innerWidth - this.list.offsetWidth - 8))}px`;
    this.colour();
  }

  close() {
    if (this.list.matches(':popover-open')) {
      this.list.hidePopover();
    }
    this.items = [];
    this.mark(-1);
    this.input.setAttribute('aria-expanded', 'false');
  }

  mark(/** @type {number} */ index) {
    this.active = index;
    for (const [at, item] of [...this.list.children].entries()) {
      item.setAttribute('aria-selected', String(at === index));
    }
    if (index < 0) {
      this.input.removeAttribute('aria-activedescendant');
    } else {
      this.input.setAttribute('aria-activedescendant', `completion-${index}`);
      this.list.children[index]?.scrollIntoView({ block: 'nearest' });
    }
  }

  /** Takes a completion over, and goes on with the next. */
  take(/** @type {number} */ index) {
    const item = this.items[index];
    if (!item) {
      return;
    }
    const { value } = this.input;
    const caret = this.input.selectionStart ?? value.length;
    const space = item.back || /^\s/.test(value.slice(caret)) ? '' : ' ';
    const taken = value.slice(0, this.from) + item.text + space;
    this.begin(taken + value.slice(caret), taken.length - (item.back ?? 0));
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const { key } = event;
    const isOpen = this.items.length > 0;
    if (event.isComposing) {
      return;
    }
    if (isOpen && (key === 'ArrowDown' || key === 'ArrowUp')) {
      const count = this.items.length;
      this.mark(key === 'ArrowDown' ? (this.active + 1) % count : (Math.max(this.active, 0) + count - 1) % count);
    } else if (isOpen && this.active >= 0 && (key === 'Enter' || key === 'Tab')) {
      this.take(this.active);
    } else if (isOpen && key === 'Escape') {
      this.close();
      event.stopPropagation();
    } else if (key === 'ArrowDown') {
      this.actions.leave();
    } else if (key === ' ' && event.ctrlKey) {
      this.complete();
    } else {
      return;
    }
    event.preventDefault();
  }

  // --- The earlier filters -----------------------------------------------------------------------------------------

  /** A button with the saved filters of the table, and the last ones. */
  history() {
    const opener = iconButton('clock', 'Earlier filters');
    return opens(opener, { role: 'dialog', 'aria-label': 'Earlier filters' }, (close) => {
      const content = element('div', { class: 'history' });
      const show = () => {
        const own = this.kept.own();
        const current = this.filter;
        const line = (/** @type {Kept} */ { filter, isSaved }) => {
          const star = iconButton('star', isSaved ? 'Do not save' : 'Save', () => {
            this.kept.put(filter, !isSaved);
            show();
          });
          star.setAttribute('aria-pressed', String(isSaved));
          return element('li', {},
            button(element('bdi', { class: 'mono' }, filter), () => {
              close();
              this.input.value = filter;
              this.run();
            }, { class: 'ghost filter-text', title: filter, 'aria-label': `Run ${filter}` }), star,
            iconButton('close', 'Forget', () => {
              this.kept.put(filter, null);
              show();
            }));
        };
        const part = (/** @type {string} */ title, /** @type {Kept[]} */ list) => (list.length === 0 ? []
          : [element('h2', {}, title), element('ul', {}, ...list.map(line))]);
        content.replaceChildren(
          ...(current !== '' && !own.some(({ filter, isSaved }) => isSaved && filter === current) ? [button('Save this filter', () => {
            this.kept.put(current, true);
            show();
          })] : []),
          ...part('Saved', own.filter(({ isSaved }) => isSaved)), ...part('Recent', own.filter(({ isSaved }) => !isSaved)),
          ...(own.length === 0 ? [element('p', { class: 'quiet' }, 'The filters that you run on this table stand here.')] : []));
      };
      show();
      return [content];
    });
  }
}
