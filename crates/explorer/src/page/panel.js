// The panel, the part beside the view for questions and for editing.

import { panel as part } from './api.js';
import { append, button, byId, element, follow, say } from './dom.js';
import { icon } from './icons.js';
import { recall, remember } from './memory.js';
import { go } from './route.js';

/** @import { Child } from './dom.js' */

/** Opens the panel. */
export function openPanel(/** @type {string} */ title, /** @type {Child[]} */ ...children) {
  const panel = byId('panel');
  if (panel.hidden) {
    cameFrom = document.activeElement;
  }
  part.guard = null;
  withdraw();
  const heading = element('h2', { id: 'panel-title', tabindex: '-1' }, title);
  const close = button(icon('close'), closePanel, { class: 'ghost icon-only', 'aria-label': 'Close', title: 'Close' });
  panel.replaceChildren(element('div', { class: 'panel-head' }, heading, close));
  append(panel, children);
  panel.hidden = false;
  document.body.classList.add('with-panel');
  grip.setAttribute('aria-valuenow', String(widthNow()));
  heading.focus();
  heading.scrollIntoView({ block: 'nearest' });
}

let cameFrom = /** @type {Element | null} */ (null);

// --- Its width -----------------------------------------------------------------------------------------------------

const KEY = 'panel';
/** The width that an arrow key adds or takes away, in pixels. */
const STEP = 16;

/** Gives the panel a width in pixels, or its own one. The style sheet knows the limits. */
function setWidth(/** @type {unknown} */ width) {
  if (Number.isFinite(width)) {
    byId('main').style.setProperty('--panel', `${width}px`);
  } else {
    byId('main').style.removeProperty('--panel');
  }
}

const grip = byId('grip');
const widthNow = () => byId('panel').offsetWidth;
/** Tells screen readers the width, and keeps it. */
function keepWidth() {
  grip.setAttribute('aria-valuenow', String(widthNow()));
  remember(KEY, widthNow());
}
grip.addEventListener('pointerdown', (event) => {
  const before = widthNow();
  follow(event, (way) => setWidth(before - way), keepWidth);
});
grip.addEventListener('dblclick', () => {
  setWidth(null);
  remember(KEY, null);
});
grip.addEventListener('keydown', ({ key }) => {
  const by = { ArrowLeft: STEP, ArrowRight: -STEP }[key];
  if (by !== undefined) {
    setWidth(widthNow() + by);
    keepWidth();
  }
});
setWidth(recall(KEY));

/**
 * Closes the panel, and goes back to where it was opened from: at once, or if changes would be lost, after a question.
 * Returns whether it is closed.
 */
export async function closePanel() {
  const panel = byId('panel');
  if (panel.hidden) {
    return true;
  }
  if (part.isGuarded && !await part.isFree()) {
    return false;
  }
  part.guard = null;
  withdraw();
  panel.hidden = true;
  panel.replaceChildren();
  document.body.classList.remove('with-panel');
  dispatchEvent(new Event('panel-closed'));
  if (cameFrom instanceof HTMLElement && cameFrom.isConnected) {
    cameFrom.focus();
  } else {
    byId('main').focus();
  }
  return true;
}

/** Closes the panel after a change, and loads the view again. */
export function done(/** @type {import('./api.js').Scope} */ scope, /** @type {string} */ words) {
  say(words);
  part.guard = null;
  closePanel();
  go(scope.route);
}

/** Asks in the panel before something is done that cannot be undone. */
export function confirm(/** @type {string} */ title, /** @type {string} */ yes, /** @type {string} */ no,
  /** @type {() => unknown} */ action, /** @type {Child[]} */ ...words) {
  openPanel(title, ...words, element('div', { class: 'tools' }, button(yes, action, { class: 'danger' }), button(no, closePanel)));
}

// --- Questions -----------------------------------------------------------------------------------------------------

/** Ends the question in the panel. */
let withdraw = () => {};

/**
 * Asks at the head of the panel, and returns whether the answer is yes. The first button says no, and so does another
 * question in its place.
 */
export function ask(/** @type {string} */ label, /** @type {string} */ words, /** @type {string} */ no, /** @type {string} */ yes) {
  const keep = element('button', { type: 'button' }, no);
  const go = element('button', { type: 'button', class: 'danger' }, yes);
  const question = element('div', { class: 'unsaved', role: 'alertdialog', 'aria-label': label },
    element('p', {}, words), element('div', { class: 'tools' }, keep, go));
  withdraw();
  byId('panel').querySelector('.panel-head')?.after(question);
  keep.focus();
  return new Promise((resolve) => {
    const answer = (/** @type {boolean} */ isYes) => {
      withdraw = () => {};
      question.remove();
      byId('panel-title').focus();
      resolve(isYes);
    };
    withdraw = () => answer(false);
    keep.addEventListener('click', withdraw);
    go.addEventListener('click', () => answer(true));
    question.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        withdraw();
      }
    });
  });
}

/** Lets the panel ask before changes are lost. */
export function guard(/** @type {() => boolean} */ isChanged) {
  part.guard = {
    holds: isChanged,
    ask: async () => {
      const isDiscarded = await ask('Unsaved changes', 'The entity has changes that are not saved.', 'Keep editing', 'Discard');
      part.guard = isDiscarded ? null : part.guard;
      return isDiscarded;
    },
  };
}

addEventListener('beforeunload', (event) => {
  // A browser asks in its own words.
  if (part.isGuarded) {
    event.preventDefault();
  }
});
