// Menus and other small things that open over the page beside a button. They are popovers of the browser: Escape and a click elsewhere
// close them, and nothing clips them.

import { attempt, button, element } from './dom.js';
import { icon } from './icons.js';

/**
 * @typedef {object} Item
 * @property {string} text
 * @property {import('./icons.js').Icon} icon
 * @property {() => unknown} action
 * @property {boolean} [isDanger]
 */

/**
 * Puts an open popover below an element, or above it where there is more room.
 *
 * @param {HTMLElement} popover
 * @param {Element} anchor
 */
export function place(popover, anchor) {
  const beside = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = popover;
  const isBelow = beside.bottom + 4 + height <= innerHeight || beside.top < innerHeight - beside.bottom;
  popover.style.top = `${isBelow ? beside.bottom + 4 : Math.max(8, beside.top - 4 - height)}px`;
  popover.style.left = `${Math.max(8, Math.min(beside.left, innerWidth - width - 8))}px`;
}

/**
 * A button with what it opens: `fill` makes the content each time that it opens.
 *
 * @param {HTMLButtonElement} opener
 * @param {Record<string, unknown>} attributes of the popover
 * @param {(close: () => void) => (Node | false)[]} fill
 */
export function opens(opener, attributes, fill) {
  const popover = element('div', { class: 'menu', popover: 'auto', ...attributes });
  const close = () => popover.hidePopover();
  opener.setAttribute('aria-expanded', 'false');
  opener.popoverTargetElement = popover;
  popover.addEventListener('beforetoggle', (event) => {
    const isOpening = event.newState === 'open';
    opener.setAttribute('aria-expanded', String(isOpening));
    if (isOpening) {
      popover.replaceChildren(...fill(close).filter((child) => child !== false));
    }
  });
  popover.addEventListener('toggle', (event) => {
    if (event.newState === 'open') {
      place(popover, opener);
      /** @type {HTMLElement | null} */ (popover.querySelector('input, button'))?.focus();
    }
  });
  // Escape closes this alone, and not the panel.
  popover.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
    }
  });
  return element('span', { class: 'opens' }, opener, popover);
}

/**
 * A menu of actions. A false item is none, and a null one is a line between others.
 *
 * @param {HTMLButtonElement} opener
 * @param {string} label
 * @param {(Item | false | null)[]} items
 */
export function menu(opener, label, items) {
  opener.setAttribute('aria-haspopup', 'menu');
  const made = opens(opener, { role: 'menu', 'aria-label': label }, (close) => items.map((item) => {
    if (!item) {
      return item === null && element('hr', {});
    }
    const entry = element('button', {
      type: 'button', role: 'menuitem', tabindex: '-1', class: item.isDanger ? 'danger' : '',
    }, icon(item.icon), item.text);
    entry.addEventListener('click', () => {
      close();
      opener.focus();
      attempt(item.action);
    });
    return entry;
  }));
  made.addEventListener('keydown', (event) => {
    const entries = /** @type {HTMLElement[]} */ ([...made.querySelectorAll('[role=menuitem]')]);
    const at = entries.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next !== undefined && at >= 0) {
      entries.at(next % entries.length)?.focus();
      event.preventDefault();
      event.stopPropagation();
    }
  });
  return made;
}

/**
 * A button that shows only an icon. Its label says what it does, and shows on hover.
 *
 * @param {import('./icons.js').Icon} name
 * @param {string} label
 * @param {() => unknown} action
 */
export function iconButton(name, label, action = () => {}) {
  const made = button('', action, { class: 'ghost icon-only', 'aria-label': label, title: label });
  made.append(icon(name));
  return made;
}
