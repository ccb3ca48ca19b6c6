// One value of an entity, edited at its cell. It is saved with the ETag of what was read, so a conflict is one of the whole entity.

import { button, byId, element, form, shown } from './dom.js';
import { done, payload, refuseInvalid, replace } from './entity.js';
import { place } from './menu.js';
import { field, textOf, valueOf } from './values.js';

/** @typedef {import('./api.js').Entity} Entity */
/** @typedef {import('./api.js').Property} Property */

/**
 * @param {import('./api.js').Scope} scope of the panel, which shows a conflict
 * @param {Entity} of
 * @param {string} name
 * @param {string} type what the property gets if the entity does not have it
 * @param {HTMLElement} cell
 */
export async function editCell(scope, { partitionKey, rowKey }, name, type, cell) {
  /** @type {Entity} */
  const entity = await scope.call('get_entity', { table: scope.route.table, partitionKey, rowKey });
  const stored = entity.properties.find(([one]) => one === name) ?? /** @type {Property} */ ([name, `Edm.${type}`, '', 0]);
  const truth = field(stored[2], false);
  const dialog = element('dialog', { class: 'menu cell-editor', 'aria-label': `${name} of ${partitionKey} ${rowKey}` });
  const rest = entity.properties.filter((one) => one !== stored);
  const save = async () => {
    refuseInvalid(name, truth);
    const value = textOf(truth);
    const isChanged = value !== stored[2] || rest.length === entity.properties.length;
    const isSaved = isChanged && await replace(scope, entity, payload([...rest, [name, stored[1], value]]), entity.etag);
    dialog.close();
    if (isSaved) {
      done(scope, 'Saved.');
    } else if (isChanged) {
      // A conflict.
      byId('panel-title').focus();
    }
  };
  let isSaving = false;
  const saveOnce = async () => {
    if (isSaving) {
      return;
    }
    isSaving = true;
    dialog.querySelector('.problem')?.remove();
    try {
      await save();
    } catch (error) {
      if (scope.signal.aborted) {
        throw error;
      }
      dialog.append(shown(error));
    } finally {
      isSaving = false;
    }
  };
  const submit = form(saveOnce, valueOf(truth, stored[1], name),
    element('div', { class: 'tools' }, element('button', { class: 'primary' }, 'Save'), button('Cancel', () => dialog.close()),
      element('small', {}, stored[1].slice(4))));
  dialog.addEventListener('keydown', (event) => {
    const isField = /** @type {Element} */ (event.target).matches('textarea, input, [role=switch]');
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && isField) {
      event.preventDefault();
      submit.requestSubmit();
    }
    // The keys of the page, and those of the grid, are not meant.
    event.stopPropagation();
  });
  dialog.addEventListener('close', () => dialog.remove());
  scope.signal.addEventListener('abort', () => dialog.close());
  dialog.append(submit);
  document.body.append(dialog);
  dialog.showModal();
  dialog.style.minWidth = `${Math.max(cell.offsetWidth + 2, 280)}px`;
  place(dialog, cell, true);
  truth.select();
}
