// The keys of the page, in a dialog.

import { button, element, tableOf } from './dom.js';

/** @type {[keys: string, does: string][]} */
const KEYS = [
  ['/', 'goes to the filter; ↓ goes from there to the first row'],
  ['↑ ↓ ← →', 'go from cell to cell; so do Home, End, Page Up and Page Down'],
  ['Enter', 'opens the entity; in the head: the menu of the column'],
  ['Space', 'selects the entity'],
  ['F2', 'edits the value of the cell'],
  ['= > <', 'add the cell to the filter with eq, ge, le'],
  ['C K', 'copy the value; copy both keys, with a tabulator between them'],
  ['Shift+← Shift+→', 'in the head: make the column narrower or wider'],
  ['Ctrl+Enter', 'in an entity: saves it'],
  ['Alt+↑ Alt+↓', 'in an entity: go to the previous one and to the next one'],
  ['Esc', 'closes what is open'],
  ['?', 'shows these keys'],
];

export function showKeys() {
  const dialog = element('dialog', { class: 'menu keys-dialog', 'aria-labelledby': 'keys-title' });
  const close = button('Close', () => dialog.close());
  dialog.append(element('h2', { id: 'keys-title' }, 'Keys'),
    tableOf(['Key', 'What it does'], KEYS.map(([keys, does]) => [
      element('span', { class: 'tools' }, ...keys.split(' ').map((key) => element('kbd', {}, key))), element('span', {}, does)])), close);
  // The keys of the page are not meant.
  dialog.addEventListener('keydown', (event) => event.stopPropagation());
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
