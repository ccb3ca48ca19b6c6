// One entity in the panel.

import { Problem, panel } from './api.js';
import { button, byId, element, form, labelled } from './dom.js';
import { replaceOr } from './conflict.js';
import { Editor, Fault } from './editor.js';
import { iconButton } from './menu.js';
import { ask, confirm, done, guard, openPanel } from './panel.js';
import { field, here, textOf } from './values.js';

/** @import { Entity, Property, Scope } from './api.js' */

/**
 * The place of an entity in the page of entities.
 *
 * @typedef {{at: number, count: number, open: (index: number) => Promise<void>}} Place
 */

/** A form for a new entity, which offers the properties of others. */
export function insertEntity(/** @type {Scope} */ scope, /** @type {[name: string, type: string][]} */ offered) {
  new Form(scope, 'Insert an entity', null, { partitionKey: '', rowKey: '', properties: [] }, true).editor.offer(offered);
}

/** Opens an entity with all of its values. */
export async function editEntity(/** @type {Scope} */ scope, /** @type {string} */ partitionKey, /** @type {string} */ rowKey,
  /** @type {boolean} */ canWrite, /** @type {Place} */ place) {
  const entity = await scope.call('get_entity', { table: scope.route.table, partitionKey, rowKey });
  // The user may have typed meanwhile.
  if (await panel.isFree()) {
    new Form(scope, 'Entity', entity, entity, canWrite);
    moveBetween(place);
  }
}

/** Replaces an entity if it still has its ETag. If not, the versions are shown, and the result is false. */
export function replace(/** @type {Scope} */ scope, /** @type {Entity} */ base, /** @type {string} */ properties) {
  return replaceOr(scope, base, properties, (current, properties) => new Form(scope, 'Entity', current, { ...current, properties }, true));
}

const counted = (/** @type {number} */ count, /** @type {string} */ noun, plural = `${noun}s`) => `${count} ${count === 1 ? noun : plural}`;

class Form {
  /**
   * @param {Scope} scope
   * @param {string} title
   * @param {Entity | null} stored null for one that does not exist yet
   * @param {{partitionKey: string, rowKey: string, properties: Property[]}} shown what the form begins with
   * @param {boolean} canWrite
   */
  constructor(scope, title, stored, shown, canWrite) {
    this.scope = scope;
    this.stored = stored;
    this.shown = shown;
    this.isSaving = false;
    this.partitionKey = new Key(shown.partitionKey, stored !== null);
    this.rowKey = new Key(shown.rowKey, stored !== null);
    this.editor = new Editor(scope, stored?.properties ?? [], shown.properties, canWrite);
    this.state = element('span', { class: 'quiet', role: 'status' });
    this.submit = element('button', { class: 'primary', 'aria-keyshortcuts': 'Control+Enter' });
    const made = form(() => this.save(),
      element('div', { class: 'keys-of-entity' },
        ...this.partitionKey.labelled('PartitionKey'), ...this.rowKey.labelled('RowKey'),
        stored && meta('Timestamp', stored.timestamp, here(new Date(stored.timestamp))), stored && meta('ETag', stored.etag)),
      this.editor.element, canWrite && this.actions());
    made.classList.add('entity');
    made.noValidate = true;
    made.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !this.submit.disabled) {
        event.preventDefault();
        made.requestSubmit();
      }
    });
    openPanel(title, made);
    if (canWrite) {
      guard(() => !this.isSaving && this.isChanged);
    }
    this.editor.tell = () => this.tell();
    this.tell();
    if (!stored) {
      this.partitionKey.field.focus();
    }
  }

  actions() {
    const { editor, scope, stored } = this;
    return element('div', { class: 'tools actions' }, this.submit, element('kbd', { 'aria-hidden': 'true' }, 'Ctrl ⏎'), this.state,
      stored && element('span', { class: 'end' },
        button('Duplicate', async () => {
          const checked = await editor.checked();
          return checked && new Form(scope, 'Duplicate: give it other keys', null, { ...stored, properties: checked.properties }, true);
        }, { class: 'ghost' }),
        button('Change keys', async () => {
          const checked = await editor.checked();
          return checked && rename(scope, stored, checked.json);
        }, { class: 'ghost' }),
        button('Delete', () => remove(scope, stored), { class: 'ghost danger' })));
  }

  get isChanged() {
    const { partitionKey, rowKey } = this.shown;
    return this.editor.changes !== 0 || textOf(this.partitionKey.field) !== partitionKey || textOf(this.rowKey.field) !== rowKey;
  }

  /** Names the action of the button. Without a change there is nothing to save. */
  tell() {
    const { changes, faults } = this.editor;
    this.submit.textContent = this.stored ? `Save${changes ? ` ${counted(changes, 'change')}` : ''}`
      : `Insert${changes ? ` with ${counted(changes, 'property', 'properties')}` : ''}`;
    this.submit.disabled = this.stored !== null && changes === 0;
    this.state.textContent = faults > 0 ? `${counted(faults, 'value')} cannot be stored` : '';
  }

  async save() {
    const { editor, scope, stored } = this;
    if (!await editor.check() || (stored && editor.changes === 0)) {
      return;
    }
    this.isSaving = true;
    try {
      if (stored ? await replace(scope, stored, editor.json()) : await this.insert()) {
        done(scope, 'Saved.');
      }
    } finally {
      this.isSaving = false;
    }
  }

  async insert() {
    const [partitionKey, rowKey] = [textOf(this.partitionKey.field), textOf(this.rowKey.field)];
    const words = 'Both keys are empty. A table has at most one such entity.';
    if (partitionKey + rowKey === '' && !await ask('Empty keys', words, 'Write the keys', 'Insert it with empty keys')) {
      this.partitionKey.field.focus();
      return false;
    }
    const keys = Object.entries({ PartitionKey: this.partitionKey, RowKey: this.rowKey });
    keys.forEach(([, key]) => key.fault.show(''));
    try {
      await this.scope.change('insert_entity', { table: this.scope.route.table, partitionKey, rowKey, properties: this.editor.json() });
      return true;
    } catch (error) {
      const wrong = error instanceof Problem && keys.find(([name]) => error.message.includes(`'${name}'`));
      if (!wrong) {
        throw error;
      }
      wrong[1].fault.show(error.hint ?? error.message);
      wrong[1].field.focus();
      return false;
    }
  }
}

/** The field of a key. */
class Key {
  constructor(/** @type {string} */ value, /** @type {boolean} */ isReadOnly) {
    this.field = field(value, isReadOnly);
    this.fault = new Fault(() => '', () => [this.field]);
    this.field.addEventListener('input', () => this.fault.show(''));
  }

  labelled(/** @type {string} */ name) {
    return [labelled(name, this.field), this.fault.element];
  }
}

/** A fact about an entity from the service. */
function meta(/** @type {string} */ name, /** @type {string} */ value, title = value) {
  return element('p', { class: 'meta' }, element('span', {}, name), element('code', { title }, value));
}

/** Puts buttons for the entities before and after this one into the head of the panel. */
function moveBetween(/** @type {Place} */ { at, count, open }) {
  /** @type {[import('./icons.js').Icon, string, string, number][]} */
  const ways = [['up', 'Previous entity', '↑', at - 1], ['down', 'Next entity', '↓', at + 1]];
  const buttons = ways.map(([name, text, arrow, next]) => {
    const made = iconButton(name, text, () => open(next));
    made.disabled = next < 0 || next >= count;
    made.title = `${text} (Alt+${arrow})`;
    return made;
  });
  byId('panel-title').after(element('small', {}, `${at + 1} of ${count}`), ...buttons);
}

byId('panel').addEventListener('keydown', (event) => {
  const name = event.altKey ? { ArrowUp: 'Previous entity', ArrowDown: 'Next entity' }[event.key] : undefined;
  if (name) {
    event.preventDefault();
    /** @type {HTMLElement | null} */ (byId('panel').querySelector(`button[aria-label="${name}"]`))?.click();
  }
});

function rename(/** @type {Scope} */ scope, /** @type {Entity} */ stored, /** @type {string} */ properties) {
  const { table } = scope.route;
  const partitionKey = field(stored.partitionKey, false);
  const rowKey = field(stored.rowKey, false);
  openPanel('Change the keys', form(async () => {
    await scope.change('rename_entity', {
      table, partitionKey: stored.partitionKey, rowKey: stored.rowKey, etag: stored.etag,
      newPartitionKey: partitionKey.value, newRowKey: rowKey.value, properties,
    });
    done(scope, 'The entity has its new keys.');
  },
  element('p', {}, 'One transaction inserts what the form has under the new keys and deletes the old entity, if nobody has changed it.'),
  labelled('PartitionKey', partitionKey), labelled('RowKey', rowKey),
  element('button', { class: 'primary' }, 'Change keys')));
  partitionKey.focus();
}

function remove(/** @type {Scope} */ scope, /** @type {Entity} */ stored) {
  confirm('Delete the entity', 'Delete it', 'Keep it', async () => {
    const keys = JSON.stringify([[stored.partitionKey, stored.rowKey, stored.etag]]);
    await scope.change('delete_entities_by_key', { table: scope.route.table, keys });
    done(scope, 'Deleted.');
  }, element('p', {}, element('bdi', {}, stored.partitionKey), ' · ', element('bdi', {}, stored.rowKey)));
}
