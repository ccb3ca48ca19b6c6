// The panel, the part beside the view for questions and for editing.

import { panel as part } from './api.js';
import { append, button, byId, element, follow } from './dom.js';
import { icon } from './icons.js';
import { recall, remember } from './memory.js';

/** @typedef {import('./dom.js').Child} Child */

/**
 * Opens the panel.
 *
 * @param {string} title
 * @param {...Child} children
 */
export function openPanel(title, ...children) {
  const panel = byId('panel');
  if (panel.hidden) {
    cameFrom = document.activeElement;
  }
  part.guard = null;
  const heading = element('h2', { id: 'panel-title', tabindex: '-1' }, title);
  const close = button('', closePanel, { class: 'ghost icon-only', 'aria-label': 'Close', title: 'Close' });
  close.append(icon('close'));
  panel.replaceChildren(element('div', { class: 'panel-head' }, heading, close));
  append(panel, children);
  panel.hidden = false;
  document.body.classList.add('with-panel');
  grip.setAttribute('aria-valuenow', String(widthNow()));
  heading.focus();
  heading.scrollIntoView({ block: 'nearest' });
}

/** @type {Element | null} */
let cameFrom = null;

// --- Its width --------------------------------------------------------------------------------------------------------------------

const KEY = 'panel';
/** What an arrow changes, in pixels. */
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

/** Closes the panel, unless it has to ask first, and goes back to where it was opened from. Returns whether it is closed. */
export function closePanel() {
  const panel = byId('panel');
  if (panel.hidden) {
    return true;
  }
  if (part.guard && !part.guard()) {
    return false;
  }
  part.guard = null;
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
