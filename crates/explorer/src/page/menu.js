// Menus and other small things that open over the page beside a button. They are popovers of the browser: Escape and a click elsewhere
// close them, and nothing clips them.

import { attempt, button, byId, element } from './dom.js';
import { icon } from './icons.js';

/** @typedef {import('./icons.js').Icon} Icon */
/** @typedef {{text: string, icon: Icon, action: () => unknown, isDanger?: boolean, key?: string}} Item a key does the same */
/** @typedef {Item | {note: string} | false | null} Entry a false one is none, and a null one is a line between others */

/** Puts an open popover below an element, or above it where there is more room, or over it. */
export function place(/** @type {HTMLElement} */ popover, /** @type {Element} */ anchor, /** @type {boolean} */ isOver = false) {
  const beside = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = popover;
  const isBelow = beside.bottom + 4 + height <= innerHeight || beside.top < innerHeight - beside.bottom;
  const over = Math.max(8, Math.min(beside.top - 1, innerHeight - height - 8));
  popover.style.top = `${isOver ? over : isBelow ? beside.bottom + 4 : Math.max(8, beside.top - 4 - height)}px`;
  popover.style.left = `${Math.max(8, Math.min(beside.left, innerWidth - width - 8))}px`;
}

/** A popover. `fill` makes its content each time that it opens. Escape closes it alone, and not the panel. */
function popoverOf(/** @type {Record<string, unknown>} */ attributes, /** @type {Element} */ anchor,
  /** @type {() => (Node | false)[]} */ fill) {
  const popover = element('div', { class: 'menu', popover: 'auto', ...attributes });
  popover.addEventListener('beforetoggle', (event) => {
    const isOpening = event.newState === 'open';
    if (anchor.hasAttribute('aria-expanded')) {
      anchor.setAttribute('aria-expanded', String(isOpening));
    }
    if (isOpening) {
      popover.replaceChildren(...fill().filter((child) => child !== false));
    }
  });
  popover.addEventListener('toggle', (event) => {
    if (event.newState === 'open') {
      place(popover, anchor);
      /** @type {HTMLElement | null} */ (popover.querySelector('input, button'))?.focus();
    }
  });
  popover.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
    }
  });
  return popover;
}

/** A button with a popover that it opens. */
export function opens(/** @type {HTMLButtonElement} */ opener, /** @type {Record<string, unknown>} */ attributes,
  /** @type {(close: () => void) => (Node | false)[]} */ fill) {
  opener.setAttribute('aria-expanded', 'false');
  const popover = popoverOf(attributes, opener, () => fill(() => popover.hidePopover()));
  opener.popoverTargetElement = popover;
  return element('span', { class: 'opens' }, opener, popover);
}

/** Makes a popover a menu of actions. */
function entries(/** @type {HTMLElement} */ popover, /** @type {HTMLElement} */ anchor, /** @type {Entry[]} */ items) {
  return items.map((item) => {
    if (!item) {
      return item === null && element('hr', {});
    }
    if ('note' in item) {
      return element('p', { class: 'quiet' }, item.note);
    }
    const entry = element('button', {
      type: 'button', role: 'menuitem', tabindex: '-1', class: item.isDanger ? 'danger' : '',
    }, icon(item.icon), element('bdi', {}, item.text), item.key && element('kbd', {}, item.key));
    entry.addEventListener('click', () => {
      popover.hidePopover();
      anchor.focus();
      attempt(item.action, anchor);
    });
    return entry;
  });
}

/** Lets arrows move from entry to entry. */
function moveBetweenEntries(/** @type {KeyboardEvent} */ event) {
  const popover = /** @type {HTMLElement} */ (event.currentTarget);
  const all = /** @type {HTMLElement[]} */ ([...popover.querySelectorAll('[role=menuitem]')]);
  const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = { ArrowDown: (at + 1) % all.length, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (next !== undefined && at >= 0) {
    all.at(next)?.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}

/** A button with a menu of actions. */
export function menu(/** @type {HTMLButtonElement} */ opener, /** @type {string} */ label, /** @type {Entry[]} */ items) {
  opener.setAttribute('aria-haspopup', 'menu');
  opener.setAttribute('aria-expanded', 'false');
  const popover = popoverOf({ role: 'menu', 'aria-label': label }, opener, () => entries(popover, opener, items));
  popover.addEventListener('keydown', moveBetweenEntries);
  opener.popoverTargetElement = popover;
  return element('span', { class: 'opens' }, opener, popover);
}

/** Opens a menu at an element that is no button. It is removed when it closes, and the element gets the focus back. */
export function openMenu(/** @type {HTMLElement} */ anchor, /** @type {string} */ label, /** @type {Entry[]} */ items) {
  const popover = popoverOf({ role: 'menu', 'aria-label': label }, anchor, () => entries(popover, anchor, items));
  popover.addEventListener('keydown', moveBetweenEntries);
  popover.addEventListener('toggle', (event) => {
    if (event.newState === 'closed') {
      if (popover.contains(document.activeElement)) {
        anchor.focus();
      }
      popover.remove();
    }
  });
  byId('main').append(popover);
  popover.showPopover();
}

/** A button that shows only an icon. Its label names the action, and shows on hover. */
export function iconButton(/** @type {Icon} */ name, /** @type {string} */ label,
  /** @type {() => unknown} */ action = () => {}) {
  return button(icon(name), action, { class: 'ghost icon-only', 'aria-label': label, title: label });
}
