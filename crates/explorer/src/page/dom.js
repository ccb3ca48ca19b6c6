// Makes elements. Texts become text nodes: nothing that an entity holds is ever read as HTML.

import { isAbort } from './api.js';

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element with attributes and children. A function under a name such as `onclick` is called on that event.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [attributes] true and false set and omit an attribute
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (value === true) {
      made.setAttribute(name, '');
    } else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, String(value));
    }
  }
  append(made, children);
  return made;
}

export function svg(/** @type {string} */ tag, /** @type {Record<string, string | number>} */ attributes,
  /** @type {Child[]} */ ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, String(value));
  }
  append(made, children);
  return made;
}

export function append(/** @type {Element} */ parent, /** @type {Child[]} */ children) {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
}

/** The element of the page with this id. */
export function byId(/** @type {string} */ id) {
  const found = document.getElementById(id);
  if (!found) {
    throw new Error(`The page has no #${id}`);
  }
  return found;
}

/** A button. While its action runs, a click does nothing, and the button keeps the focus. */
export function button(/** @type {Child | Child[]} */ content, /** @type {() => unknown} */ action,
  /** @type {Record<string, unknown>} */ attributes = {}) {
  const made = element('button', { type: 'button', ...attributes }, ...[content].flat());
  made.addEventListener('click', async () => {
    if (!made.hasAttribute('aria-busy')) {
      made.setAttribute('aria-busy', 'true');
      await attempt(action, made);
      made.removeAttribute('aria-busy');
    }
  });
  return made;
}

/**
 * Buttons of which one is pressed. A click presses another one, and picks its name.
 *
 * @template {string} T
 * @param {string} label
 * @param {T[]} names
 * @param {T} chosen
 * @param {(name: T) => void} pick
 */
export function segments(label, names, chosen, pick) {
  const choices = names.map((name) => element('button', { type: 'button', 'aria-pressed': String(name === chosen), onclick: () => {
    choices.forEach((choice) => choice.setAttribute('aria-pressed', String(choice.textContent === name)));
    pick(name);
  } }, name));
  return element('div', { class: 'segments', role: 'group', 'aria-label': label }, ...choices);
}

/**
 * A field with its label.
 *
 * @template {HTMLElement} T
 * @param {string} text
 * @param {T} field
 */
export function labelled(text, field) {
  return element('label', {}, element('span', {}, text), field);
}

/** A form that calls `submit`, and not the server, once at a time. */
export function form(/** @type {() => unknown} */ submit, /** @type {Child[]} */ ...children) {
  const made = element('form', {
    onsubmit: async (/** @type {Event} */ event) => {
      event.preventDefault();
      if (made.hasAttribute('aria-busy')) return;
      made.setAttribute('aria-busy', 'true');
      await attempt(submit, made);
      made.removeAttribute('aria-busy');
    },
  }, ...children);
  return made;
}

/** A place for a table that may be wider than there is room. It also scrolls by keyboard. */
export function scrolled(/** @type {string} */ label, /** @type {Child[]} */ ...children) {
  return element('div', { class: 'list', tabindex: '0', role: 'region', 'aria-label': label }, ...children);
}

/** A table for people. A column of actions has an empty head. Numbers are at the right, below a head with a #. */
export function tableOf(/** @type {string[]} */ head, /** @type {(Node | string)[][]} */ rows) {
  const kind = (/** @type {number} */ column) => (head[column]?.startsWith('#') ? 'number' : head[column] ? '' : 'actions-of-row');
  return element('table', {},
    element('thead', {}, element('tr', {}, ...head.map((text, column) => (text
      ? element('th', { scope: 'col', class: kind(column) }, text.replace('#', '')) : element('td', { class: kind(column) }))))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((value, column) => element('td', { class: kind(column) },
      typeof value === 'string' ? element('bdi', {}, value) : value))))));
}

/**
 * A table that is sorted by one of its columns: the largest first, but for texts.
 *
 * @template T
 * @param {string} label
 * @param {Record<string, {text: string, size?: (one: T) => number, name?: (one: T) => string}>} columns by their classes; one without a
 *   size and a name does not sort
 * @param {string} order the column that sorts first
 * @param {(one: T, order: string) => HTMLTableRowElement} row
 * @returns {{element: HTMLElement, show: (all: T[]) => void}}
 */
export function sortedTable(label, columns, order, row) {
  const made = scrolled(label);
  let shown = /** @type {T[]} */ ([]);
  const compare = (/** @type {T} */ a, /** @type {T} */ b) => {
    const { size, name = () => '' } = columns[order] ?? {};
    const [first, second] = [name(a), name(b)];
    return size ? size(b) - size(a) : first < second ? -1 : Number(first > second);
  };
  const sort = (/** @type {string} */ by) => {
    order = by;
    show(shown);
  };
  const heads = () => Object.entries(columns).map(([by, { text, size, name }]) => (size || name
    ? element('th', { scope: 'col', class: by, 'aria-sort': order !== by ? null : size ? 'descending' : 'ascending' },
      element('button', { type: 'button', class: 'link', 'data-order': by, onclick: () => sort(by) }, text))
    : element('td', { class: by }, text)));
  const show = (/** @type {T[]} */ all) => {
    shown = all;
    const focused = document.activeElement?.getAttribute('data-order');
    made.replaceChildren(element('table', { class: 'sorted' }, element('thead', {}, element('tr', {}, ...heads())),
      element('tbody', {}, ...[...all].sort(compare).map((one) => row(one, order)))));
    /** @type {HTMLElement | null} */ (focused && made.querySelector(`[data-order="${focused}"]`))?.focus();
  };
  return { element: made, show };
}

/** Says something at the foot of the page, also to screen readers. */
export function say(/** @type {string} */ text) {
  byId('status').textContent = text;
}

/**
 * Shows an error: the code of the service, its message, and its hint.
 *
 * @param {unknown} error
 * @param {() => unknown} [again] tries again. It is offered where that can help: a refused request is refused again.
 * @returns {HTMLElement}
 */
export function shown(error, again) {
  const problem = /** @type {{code?: string, status?: number, message: string, hint?: string}} */ (error);
  const mayPass = !problem.status || problem.status >= 500;
  return element('div', { class: 'problem', role: 'alert' },
    problem.code && element('strong', {}, problem.code, ': '),
    problem.message,
    problem.hint && element('span', { class: 'hint' }, problem.hint),
    again && mayPass && button('Try again', again));
}

/**
 * Runs an action that can fail, and shows the error where the user asked for it: in the panel or above the view. If
 * that place is gone, the panel shows it if one is open. An action that was aborted for another one is no error.
 *
 * @param {() => unknown} action
 * @param {Element} [asked] what the user has pressed
 */
export async function attempt(action, asked) {
  // An error of the filter stays as long as the filter does.
  document.querySelectorAll('main .problem:not(#explanation *)').forEach((old) => old.remove());
  const isOfView = asked !== undefined && byId('view').contains(asked);
  try {
    await action();
  } catch (error) {
    if (isAbort(error)) {
      return;
    }
    const problem = shown(error);
    const isInView = byId('panel').hidden || (isOfView && byId('view').contains(asked) && byId('view').checkVisibility());
    if (isInView) {
      byId('view').prepend(problem);
    } else {
      byId('panel').querySelector('.panel-head')?.after(problem);
    }
    problem.scrollIntoView({ block: 'nearest' });
  }
}

/** Follows a pointer that drags a grip sideways. */
export function follow(/** @type {PointerEvent} */ event, /** @type {(way: number) => void} */ move, /** @type {() => void} */ done) {
  const grip = /** @type {HTMLElement} */ (event.currentTarget);
  const from = event.clientX;
  event.preventDefault();
  grip.setPointerCapture(event.pointerId);
  const moved = (/** @type {PointerEvent} */ { clientX }) => move(clientX - from);
  grip.addEventListener('pointermove', moved);
  grip.addEventListener('lostpointercapture', () => {
    grip.removeEventListener('pointermove', moved);
    done();
  }, { once: true });
}

/** A number of bytes in words. */
export function bytes(/** @type {number} */ count) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${count >= 10 || unit === 0 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

/** A number with separators. A browser's own would take ten milliseconds to load, before the first row. */
export function number(/** @type {number} */ count) {
  const [whole = '', part] = String(Math.round(count * 1000) / 1000).split('.');
  return whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ',') + (part ? `.${part}` : '');
}

/** A number of entities in words. */
export function entitiesText(/** @type {number} */ count) {
  return count === 1 ? '1 entity' : `${number(count)} entities`;
}
