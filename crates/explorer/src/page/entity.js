// One entity: as a form and as JSON, with its ETag.

import { Problem } from './api.js';
import { button, element, form, labelled, say } from './dom.js';
import { closePanel, openPanel } from './panel.js';
import { go } from './route.js';

/** @typedef {import('./api.js').Entity} Entity */
/** @typedef {import('./api.js').Property} Property */
/** @typedef {import('./api.js').Scope} Scope */

/** Members of JSON that are no properties. The service ignores them, so what somebody has typed would be gone. */
const IGNORED = /^(?:PartitionKey|RowKey|Timestamp)$|^odata\.|@odata\./;

const TYPES = ['String', 'Int32', 'Int64', 'Double', 'Boolean', 'DateTime', 'Guid', 'Binary'];

/**
 * Closes the panel, and loads the page of entities again.
 *
 * @param {Scope} scope
 * @param {string} words
 */
function done(scope, words) {
  say(words);
  closePanel();
  go(scope.route);
}

/**
 * An empty form for a new entity.
 *
 * @param {Scope} scope
 */
export function insertEntity(scope) {
  edit(scope, 'Insert an entity', null, { partitionKey: '', rowKey: '', properties: [] }, true);
}

/**
 * Opens an entity with all of its values.
 *
 * @param {Scope} scope
 * @param {string} partitionKey
 * @param {string} rowKey
 * @param {boolean} canWrite
 */
export async function editEntity(scope, partitionKey, rowKey, canWrite) {
  const entity = await scope.call('get_entity', { table: scope.route.table, partitionKey, rowKey });
  edit(scope, 'Entity', entity, entity, canWrite);
}

/**
 * @param {Scope} scope
 * @param {string} title
 * @param {Entity | null} stored null for one that does not exist yet
 * @param {{partitionKey: string, rowKey: string, properties: Property[]}} shown what the form begins with
 * @param {boolean} canWrite
 */
function edit(scope, title, stored, shown, canWrite) {
  const { table } = scope.route;
  const keys = [field(shown.partitionKey, stored !== null), field(shown.rowKey, stored !== null)];
  const [partitionKey, rowKey] = /** @type {[HTMLTextAreaElement, HTMLTextAreaElement]} */ (keys);
  const editor = new Editor(scope, shown.properties, canWrite);
  const save = async () => {
    const properties = await editor.json();
    if (stored === null) {
      await scope.change('insert_entity', { table, partitionKey: partitionKey.value, rowKey: rowKey.value, properties });
    } else if (!await replace(scope, stored, properties, stored.etag)) {
      return;
    }
    done(scope, 'Saved.');
  };
  const submit = form(save,
    element('div', { class: 'keys-of-entity' }, labelled('PartitionKey', partitionKey), labelled('RowKey', rowKey)),
    stored && element('p', { class: 'quiet' }, `Timestamp ${stored.timestamp}`, element('br'), `ETag ${stored.etag}`),
    editor.element,
    canWrite && element('div', { class: 'tools actions' },
      element('button', { class: 'primary' }, stored ? 'Save' : 'Insert'),
      stored && button('Duplicate', async () => duplicate(scope, await editor.properties(), stored)),
      stored && button('Change keys', async () => rename(scope, stored, await editor.checked())),
      stored && button('Delete', () => remove(scope, stored), { class: 'danger' })));
  openPanel(title, submit);
  if (stored === null) {
    partitionKey.focus();
  }
}

/**
 * The texts that fields began with: a textarea makes \n of \r\n and of \r.
 *
 * @type {WeakMap<HTMLTextAreaElement, string>}
 */
const originals = new WeakMap();

/**
 * @param {string} value
 * @param {boolean} isReadOnly
 */
function field(value, isReadOnly) {
  const made = element('textarea', { rows: 1, spellcheck: 'false', dir: 'auto', readonly: isReadOnly });
  made.value = value;
  originals.set(made, value);
  return made;
}

/**
 * Returns the text of a field. A textarea has `\n` for every line end. An unedited text keeps its line ends, and an edited one gets
 * its first line end everywhere.
 *
 * @param {HTMLTextAreaElement} made
 */
function textOf(made) {
  const original = originals.get(made) ?? '';
  const [end = '\n'] = /\r\n?|\n/.exec(original) ?? [];
  return made.value === original.replaceAll(/\r\n?/g, '\n') ? original : made.value.replaceAll('\n', end);
}

/** The properties of an entity, as fields or as JSON. */
class Editor {
  /**
   * @param {Scope} scope
   * @param {Property[]} properties
   * @param {boolean} canWrite
   */
  constructor(scope, properties, canWrite) {
    this.scope = scope;
    this.canWrite = canWrite;
    /** @type {{name: HTMLInputElement, type: HTMLSelectElement, value: HTMLTextAreaElement, row: HTMLElement}[]} */
    this.rows = [];
    this.list = element('div', { class: 'properties' });
    this.text = element('textarea', {
      rows: 16, spellcheck: 'false', 'aria-label': 'Properties as JSON', readonly: !canWrite, hidden: true,
    });
    this.add = button('Add a property', () => this.addRow(['', 'Edm.String', '', 0])?.name.focus());
    this.toggle = button('As JSON', () => this.switch(), { 'aria-pressed': 'false' });
    this.element = element('fieldset', {}, element('legend', {}, 'Properties'),
      this.list, this.text, element('div', { class: 'tools' }, canWrite && this.add, this.toggle));
    this.show(properties);
  }

  get isJson() {
    return !this.text.hidden;
  }

  /** @param {Property[]} properties */
  show(properties) {
    this.rows = [];
    this.list.replaceChildren();
    for (const property of properties) {
      this.addRow(property);
    }
  }

  /** @param {Property} property */
  addRow([name, type, text]) {
    const nameField = element('input', { 'aria-label': 'Name', spellcheck: 'false', readonly: !this.canWrite });
    nameField.value = name;
    const typeField = element('select', { 'aria-label': `Type of ${name || 'the new property'}`, disabled: !this.canWrite },
      ...TYPES.map((type) => element('option', { value: `Edm.${type}` }, type)));
    typeField.value = type;
    const value = field(text, !this.canWrite);
    value.setAttribute('aria-label', `Value of ${name || 'the new property'}`);
    value.rows = Math.min(8, text.split('\n').length + Math.floor(text.length / 60));
    const row = element('div', { class: 'property' }, nameField, typeField, value);
    const made = { name: nameField, type: typeField, value, row };
    if (this.canWrite) {
      row.append(button('✕', () => {
        this.rows = this.rows.filter((other) => other !== made);
        row.remove();
        this.add.focus();
      }, { 'aria-label': `Remove ${name || 'the new property'}` }));
    }
    this.rows.push(made);
    this.list.append(row);
    return made;
  }

  /** What would be saved, in the payload form of the service. */
  async json() {
    if (this.isJson) {
      return this.text.value;
    }
    const ignored = this.rows.find(({ name }) => IGNORED.test(name.value));
    if (ignored) {
      throw new Problem(400, 'PropertyNameInvalid', `A property cannot have the name ${ignored.name.value}.`);
    }
    const properties = this.rows.map(({ name, type, value }) => /** @type {[string, string, string]} */ (
      [name.value, type.value, textOf(value)]));
    return payload(properties);
  }

  /** What would be saved, value by value. The database reads the JSON, because numbers lose their types in a browser. */
  async properties() {
    const { properties } = await this.scope.call('read_properties', { properties: await this.json() });
    return /** @type {Property[]} */ (properties);
  }

  /** What would be saved, as the service writes it, unless the service refuses it. */
  async checked() {
    const { json } = await this.scope.call('read_properties', { properties: await this.json() });
    return /** @type {string} */ (json);
  }

  async switch() {
    const { properties, json } = await this.scope.call('read_properties', { properties: await this.json() });
    if (this.isJson) {
      this.show(properties);
    } else {
      this.text.value = json;
    }
    this.text.hidden = !this.text.hidden;
    this.list.hidden = this.isJson;
    this.add.hidden = this.isJson;
    this.toggle.setAttribute('aria-pressed', String(this.isJson));
  }
}

/**
 * Properties as JSON. Every value is a text with its type, so none of them goes through a number of JavaScript.
 *
 * @param {[name: string, type: string, value: string][]} properties
 */
function payload(properties) {
  const names = new Set();
  const members = properties.map(([name, type, value]) => {
    if (names.has(name)) {
      throw new Problem(400, 'InvalidInput', `The property ${name || '(without a name)'} is there twice.`);
    }
    names.add(name);
    const key = JSON.stringify(name);
    const text = JSON.stringify(type === 'Edm.String' ? value : value.trim());
    return type === 'Edm.String' ? `${key}:${text}` : `${JSON.stringify(`${name}@odata.type`)}:${JSON.stringify(type)},${key}:${text}`;
  });
  return `{${members.join(',')}}`;
}

/**
 * Replaces an entity if it still has that ETag. If not, both versions are shown, and the result is false.
 *
 * @param {Scope} scope
 * @param {Entity} stored
 * @param {string} properties
 * @param {string} etag
 */
async function replace(scope, stored, properties, etag) {
  const { table } = scope.route;
  const keys = { table, partitionKey: stored.partitionKey, rowKey: stored.rowKey };
  try {
    await scope.change('replace_entity', { ...keys, properties, etag });
    return true;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412 || scope.signal.aborted) {
      throw error;
    }
    const current = await scope.call('get_entity', keys);
    const mine = (await scope.call('read_properties', { properties })).properties;
    showConflict(scope, error, current, mine, properties);
    return false;
  }
}

/**
 * @param {Scope} scope
 * @param {Problem} error
 * @param {Entity} current
 * @param {Property[]} mine
 * @param {string} properties
 */
function showConflict(scope, error, current, mine, properties) {
  const versions = [mine, current.properties].map((list) => new Map(list.map(([name, type, value]) => [name, { type, value }])));
  const [own, other] = /** @type {[Map<string, {type: string, value: string}>, Map<string, {type: string, value: string}>]} */ (
    versions);
  const names = [...new Set([...own.keys(), ...other.keys()])].sort();
  const cell = (/** @type {{type: string, value: string} | undefined} */ property) => (property
    ? element('td', {}, element('bdi', {}, property.value), element('small', {}, property.type.slice(4)))
    : element('td', { class: 'absent' }, element('span', { class: 'empty' }, '(absent)')));
  const rows = names.map((name) => {
    const differs = JSON.stringify(own.get(name)) !== JSON.stringify(other.get(name));
    return element('tr', { class: differs ? 'differs' : '' },
      element('th', { scope: 'row' }, element('bdi', {}, name), differs && element('small', {}, 'differs')),
      cell(own.get(name)), cell(other.get(name)));
  });
  openPanel('Somebody else has changed the entity',
    element('p', {}, element('strong', {}, `${error.code}: `), error.message),
    element('div', { class: 'list', tabindex: '0', role: 'region', 'aria-label': 'Both versions' },
      element('table', { class: 'versions' },
        element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Property'),
          element('th', { scope: 'col' }, 'Yours'), element('th', { scope: 'col' }, `Stored at ${current.timestamp}`))),
        element('tbody', {}, ...rows))),
    element('div', { class: 'tools' },
      button('Edit what is stored', () => edit(scope, 'Entity', current, current, true)),
      button('Edit yours', () => edit(scope, 'Entity', current, { ...current, properties: mine }, true)),
      button('Replace it by yours', async () => {
        if (await replace(scope, current, properties, current.etag)) {
          done(scope, 'Saved.');
        }
      }, { class: 'danger' })));
}

/**
 * @param {Scope} scope
 * @param {Property[]} properties
 * @param {Entity} stored
 */
function duplicate(scope, properties, stored) {
  edit(scope, 'Duplicate: give it other keys', null, { ...stored, properties }, true);
}

/**
 * @param {Scope} scope
 * @param {Entity} stored
 * @param {string} properties what the form has
 */
function rename(scope, stored, properties) {
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

/**
 * @param {Scope} scope
 * @param {Entity} stored
 */
function remove(scope, stored) {
  openPanel('Delete the entity',
    element('p', {}, element('bdi', {}, stored.partitionKey), ' · ', element('bdi', {}, stored.rowKey)),
    element('div', { class: 'tools' },
      button('Delete it', async () => {
        const keys = JSON.stringify([[stored.partitionKey, stored.rowKey, stored.etag]]);
        await scope.change('delete_entities_by_key', { table: scope.route.table, keys });
        done(scope, 'Deleted.');
      }, { class: 'danger' }),
      button('Keep it', closePanel)));
}
