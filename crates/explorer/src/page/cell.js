// A value of an entity, edited at its cell. It is saved with the entity's ETag, so any change of that is a conflict.

import { button, byId, element, form, shown } from './dom.js';
import { Editor } from './editor.js';
import { replace } from './entity.js';
import { place } from './menu.js';
import { done } from './panel.js';

/** @import { Entity, Scope } from './api.js' */

/**
 * @param {Scope} scope of the panel, which shows a conflict
 * @param {Entity} of
 * @param {string} name
 * @param {string} type what the property gets if the entity does not have it
 * @param {HTMLElement} cell
 */
export async function editCell(scope, { partitionKey, rowKey }, name, type, cell) {
  /** @type {Entity} */
  const entity = await scope.call('get_entity', { table: scope.route.table, partitionKey, rowKey });
  const editor = new Editor(scope, entity.properties, entity.properties, true);
  const known = editor.all.find((one) => one.name.value === name);
  const row = known ?? editor.addRow([name, `Edm.${type}`, ''], null);
  if (!known) {
    row.changeType();
  }
  const dialog = element('dialog', { class: 'menu cell-editor', 'aria-label': `${name} of ${partitionKey} ${rowKey}` });
  const save = async () => {
    dialog.querySelector('.problem')?.remove();
    try {
      const isChanged = editor.changes !== 0;
      if (await editor.check()) {
        const isSaved = isChanged && await replace(scope, entity, editor.json());
        dialog.close();
        if (isSaved) {
          done(scope, 'Saved.');
        } else if (isChanged) {
          // A conflict.
          byId('panel-title').focus();
        }
      }
    } catch (error) {
      if (scope.signal.aborted) {
        throw error;
      }
      dialog.append(shown(error));
    }
  };
  const submit = form(save, row.element, element('div', { class: 'tools' },
    element('button', { class: 'primary' }, 'Save'), button('Cancel', () => dialog.close()),
    element('small', {}, row.type.value.slice(4))));
  submit.noValidate = true;
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
  row.value.select();
}
