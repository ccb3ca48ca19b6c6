// One entity: as rows of names, types and values, and as JSON.

import { Problem, panel } from './api.js';
import { paint, partsOfJson } from './colours.js';
import { button, byId, element, form, labelled, number, say, scrolled } from './dom.js';
import { icon } from './icons.js';
import { iconButton } from './menu.js';
import { closePanel, openPanel } from './panel.js';
import { go } from './route.js';
import { TYPES, field, here, textOf, valueOf } from './values.js';

/** @typedef {import('./api.js').Entity} Entity */
/** @typedef {import('./api.js').Property} Property */
/** @typedef {import('./api.js').Scope} Scope */

/**
 * Where an entity stands in the page of entities.
 *
 * @typedef {{at: number, count: number, open: (index: number) => Promise<void>}} Place
 */

/** The longest JSON that has colours, in characters. */
const COLOURED = 50_000;

/** Members of JSON that are no properties. The service ignores them, so what somebody has typed would be gone. */
const IGNORED = /^(?:PartitionKey|RowKey|Timestamp)$|^odata\.|@odata\./;

/**
 * Closes the panel, and loads the page of entities again.
 *
 * @param {Scope} scope
 * @param {string} words
 */
export function done(scope, words) {
  say(words);
  panel.guard = null;
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
 * @param {Place} place
 */
export async function editEntity(scope, partitionKey, rowKey, canWrite, place) {
  const entity = await scope.call('get_entity', { table: scope.route.table, partitionKey, rowKey });
  // Somebody may have typed meanwhile.
  if (!panel.guard || panel.guard()) {
    edit(scope, 'Entity', entity, entity, canWrite);
    moveBetween(place);
  }
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
  const editor = new Editor(scope, stored?.properties ?? shown.properties, shown.properties, canWrite);
  let isSaving = false;
  const isChanged = () => !isSaving && (editor.isChanged
    || textOf(partitionKey) !== shown.partitionKey || textOf(rowKey) !== shown.rowKey);
  const save = async () => {
    isSaving = true;
    try {
      const properties = await editor.json();
      if (stored === null) {
        await scope.change('insert_entity', { table, partitionKey: partitionKey.value, rowKey: rowKey.value, properties });
      } else if (!await replace(scope, stored, properties, stored.etag)) {
        return;
      }
      done(scope, 'Saved.');
    } finally {
      isSaving = false;
    }
  };
  const state = element('span', { class: 'quiet', role: 'status' });
  const tell = () => {
    const count = editor.changes;
    state.textContent = count === 0 || !stored ? '' : `${count} changed`;
  };
  const submit = form(save,
    element('div', { class: 'keys-of-entity' },
      labelled('PartitionKey', partitionKey), labelled('RowKey', rowKey),
      stored && meta('Timestamp', stored.timestamp, here(new Date(stored.timestamp))), stored && meta('ETag', stored.etag)),
    editor.element,
    canWrite && element('div', { class: 'tools actions' },
      element('button', { class: 'primary', 'aria-keyshortcuts': 'Control+Enter' }, stored ? 'Save' : 'Insert'),
      element('kbd', { 'aria-hidden': 'true' }, 'Ctrl ⏎'), state,
      element('span', { class: 'end' },
        stored && button('Duplicate', async () => duplicate(scope, await editor.properties(), stored), { class: 'ghost' }),
        stored && button('Change keys', async () => rename(scope, stored, await editor.checked()), { class: 'ghost' }),
        stored && button('Delete', () => remove(scope, stored), { class: 'ghost danger' }))));
  submit.classList.add('entity');
  submit.addEventListener('input', tell);
  submit.addEventListener('editor-changed', tell);
  submit.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit.requestSubmit();
    }
  });
  openPanel(title, submit);
  panel.guard = canWrite ? () => askUnlessUnchanged(isChanged) : null;
  tell();
  if (!stored) {
    partitionKey.focus();
  }
}

/**
 * What the service says of an entity.
 *
 * @param {string} name
 * @param {string} value
 * @param {string} [title]
 */
function meta(name, value, title) {
  return element('p', { class: 'meta' }, element('span', {}, name), element('code', { title: title ?? value }, value));
}

/** What somebody has just pressed. It is pressed again when changes are discarded. */
let pressed = /** @type {Element | null} */ (null);
document.addEventListener('click', ({ target }) => {
  const found = target instanceof Element ? target.closest('a, button') : null;
  pressed = found;
  setTimeout(() => {
    pressed = pressed === found ? null : pressed;
  }, 500);
}, true);

/**
 * Returns whether the panel may go. If it has changes, it asks first.
 *
 * @param {() => boolean} isChanged
 */
function askUnlessUnchanged(isChanged) {
  if (!isChanged()) {
    return true;
  }
  const asked = pressed;
  pressed = null;
  const keep = element('button', { type: 'button' }, 'Keep editing');
  const discard = element('button', { type: 'button', class: 'danger' }, 'Discard');
  const question = element('div', { class: 'unsaved', role: 'alertdialog', 'aria-label': 'Unsaved changes' },
    element('p', {}, 'The entity has changes that are not saved.'), element('div', { class: 'tools' }, keep, discard));
  keep.addEventListener('click', () => {
    question.remove();
    byId('panel-title').focus();
  });
  discard.addEventListener('click', () => {
    panel.guard = null;
    if (asked?.isConnected) {
      /** @type {HTMLElement} */ (asked).click();
    } else {
      closePanel();
    }
  });
  question.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      keep.click();
    }
  });
  byId('panel').querySelector('.unsaved')?.remove();
  byId('panel').querySelector('.panel-head')?.after(question);
  keep.focus();
  return false;
}

addEventListener('beforeunload', (event) => {
  // A browser asks in its own words.
  if (panel.guard && !panel.guard()) {
    event.preventDefault();
  }
});

/**
 * Puts buttons for the entities before and after this one into the head of the panel.
 *
 * @param {Place} place
 */
function moveBetween({ at, count, open }) {
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

/**
 * @typedef {object} Row
 * @property {HTMLInputElement} name
 * @property {HTMLSelectElement} type
 * @property {HTMLTextAreaElement} value
 * @property {HTMLElement} row
 * @property {Property | null} stored null of one that is added
 * @property {boolean} isRemoved
 */

/** The properties of an entity, as rows or as JSON. */
class Editor {
  /**
   * @param {Scope} scope
   * @param {Property[]} stored
   * @param {Property[]} properties what the rows begin with
   * @param {boolean} canWrite
   */
  constructor(scope, stored, properties, canWrite) {
    this.scope = scope;
    this.stored = stored;
    this.canWrite = canWrite;
    /** @type {Row[]} */
    this.all = [];
    this.list = element('div', { class: 'properties' });
    this.text = element('textarea', {
      rows: 16, spellcheck: 'false', 'aria-label': 'Properties as JSON', readonly: !canWrite,
    });
    this.text.addEventListener('input', () => this.colour());
    this.paper = element('div', { class: 'paper', 'aria-hidden': 'true' });
    this.sheet = element('div', { class: 'sheet', hidden: true }, this.paper, this.text);
    /** The JSON that was shown first, and whether the rows had changes then. */
    this.before = { json: '', isChanged: false };
    const add = () => this.addRow(['', 'Edm.String', '', 0], null).name.focus();
    this.add = button('', add, { class: 'ghost', 'aria-label': 'Add a property' });
    this.add.append(icon('plus'), 'Add a property');
    this.toggle = button('As JSON', () => this.switch(), { class: 'ghost', 'aria-pressed': 'false' });
    this.element = element('section', { class: 'editor', 'aria-label': 'Properties' }, this.list, this.sheet,
      element('div', { class: 'tools' }, canWrite && this.add, this.toggle));
    this.show(properties);
  }

  get isJson() {
    return !this.sheet.hidden;
  }

  /** The rows that would be saved. */
  get rows() {
    return this.all.filter(({ isRemoved }) => !isRemoved);
  }

  /** @returns {boolean} */
  get isChanged() {
    return this.isJson ? this.before.isChanged || this.text.value !== this.before.json : this.changes > 0;
  }

  /**
   * How many properties are added, changed or removed.
   *
   * @returns {number}
   */
  get changes() {
    return this.isJson ? Number(this.isChanged) : this.all.filter((row) => stateOf(row) !== '').length;
  }

  /** @param {Property[]} properties */
  show(properties) {
    this.all = [];
    this.list.replaceChildren();
    const stored = new Map(this.stored.map((property) => [property[0], property]));
    for (const property of properties) {
      this.addRow(property, stored.get(property[0]) ?? null);
      stored.delete(property[0]);
    }
    for (const property of stored.values()) {
      this.addRow(property, property, true);
    }
  }

  /**
   * @param {Property} property
   * @param {Property | null} stored
   * @param {boolean} [isRemoved]
   */
  addRow([name, type, text], stored, isRemoved = false) {
    const nameField = element('input', {
      'aria-label': 'Name', placeholder: 'Name', spellcheck: 'false', autocomplete: 'off', readonly: !this.canWrite,
    });
    nameField.value = name;
    nameField.title = name;
    const called = name || 'the new property';
    const typeField = element('select', { 'aria-label': `Type of ${called}`, disabled: !this.canWrite },
      ...TYPES.map((type) => element('option', { value: `Edm.${type}` }, type)));
    typeField.value = type;
    const value = field(text, !this.canWrite);
    value.rows = Math.min(8, text.split('\n').length + Math.floor(text.length / 60));
    let shown = valueOf(value, type, `Value of ${called}`);
    const row = element('div', { class: 'property', role: 'group', 'aria-label': called }, nameField, typeField, shown);
    /** @type {Row} */
    const made = { name: nameField, type: typeField, value, row, stored, isRemoved };
    const update = () => {
      row.dataset['state'] = stateOf(made);
      row.title = stateOf(made) === 'changed' && stored ? `It was ${stored[2].slice(0, 80)} (${stored[1].slice(4)})` : '';
      undo.hidden = row.dataset['state'] === '' || stored === null;
      for (const one of [nameField, typeField, value]) {
        one.toggleAttribute('disabled', made.isRemoved || (one === typeField && !this.canWrite));
      }
      drop.hidden = made.isRemoved;
      row.dispatchEvent(new Event('editor-changed', { bubbles: true }));
    };
    const again = () => {
      const next = valueOf(value, typeField.value, `Value of ${called}`);
      shown.replaceWith(next);
      shown = next;
      update();
    };
    typeField.addEventListener('change', again);
    row.addEventListener('input', update);
    const undo = iconButton('reload', `Undo the change of ${called}`, () => {
      if (stored) {
        made.isRemoved = false;
        [nameField.value, typeField.value] = stored;
        value.value = stored[2];
        again();
      }
    });
    const drop = iconButton('close', `Remove ${called}`, () => {
      if (stored) {
        made.isRemoved = true;
        update();
        undo.focus();
      } else {
        this.all = this.all.filter((other) => other !== made);
        row.dispatchEvent(new Event('editor-changed', { bubbles: true }));
        row.remove();
        this.add.focus();
      }
    });
    if (this.canWrite) {
      row.append(element('span', { class: 'row-tools' }, undo, drop));
    }
    this.all.push(made);
    this.list.append(row);
    update();
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
    this.rows.forEach(({ name, value }) => refuseInvalid(name.value, value));
    return payload(this.rows.map(({ name, type, value }) => [name.value, type.value, textOf(value)]));
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

  /** Colours the JSON, unless it has so much text that typing would become slow. */
  colour() {
    const { value } = this.text;
    this.sheet.classList.toggle('plain', value.length > COLOURED);
    paint(this.paper, value, value.length > COLOURED ? [] : partsOfJson(value));
  }

  async switch() {
    const { properties, json } = await this.scope.call('read_properties', { properties: await this.json() });
    const { isChanged } = this;
    if (this.isJson) {
      this.show(properties);
    } else {
      this.text.value = onLines(json);
      this.before = { json: this.text.value, isChanged };
    }
    this.colour();
    this.sheet.hidden = !this.sheet.hidden;
    this.list.hidden = this.isJson;
    this.add.hidden = this.isJson;
    this.toggle.setAttribute('aria-pressed', String(this.isJson));
    this.element.dispatchEvent(new Event('editor-changed', { bubbles: true }));
  }
}

/**
 * Returns added, changed, removed, or nothing for a row that is as it is stored.
 *
 * @param {Row} row
 */
function stateOf({ name, type, value, stored, isRemoved }) {
  if (stored === null) {
    return 'added';
  }
  if (isRemoved) {
    return 'removed';
  }
  return name.value === stored[0] && type.value === stored[1] && textOf(value) === stored[2] ? '' : 'changed';
}

/** The JSON of properties, which has no lists and no objects, with a line for each member. */
function onLines(/** @type {string} */ json) {
  const names = partsOfJson(json).filter(({ kind }) => kind === 'name');
  const lines = names.map(({ start }, index) => `  ${json.slice(start, names[index + 1]?.start ?? -1)}`);
  return names.length === 0 ? json : `{\n${lines.join('\n')}\n}`;
}

/** Refuses a value of bytes that is no hex. */
export function refuseInvalid(/** @type {string} */ name, /** @type {HTMLTextAreaElement} */ value) {
  if (value.getAttribute('aria-invalid') === 'true') {
    throw new Problem(400, 'InvalidInput', `The value of ${name} is no hex.`, 'Each byte has two digits of 0 to 9 and a to f.');
  }
}

/**
 * Properties as JSON. Every value is a text with its type, so none of them goes through a number of JavaScript.
 *
 * @param {([name: string, type: string, value: string] | Property)[]} properties
 */
export function payload(properties) {
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
 * Replaces an entity if it still has that ETag. If not, the versions are shown, and the result is false.
 *
 * @param {Scope} scope
 * @param {Entity} base what was edited
 * @param {string} properties
 * @param {string} etag
 */
export async function replace(scope, base, properties, etag) {
  const { table } = scope.route;
  const keys = { table, partitionKey: base.partitionKey, rowKey: base.rowKey };
  try {
    await scope.change('replace_entity', { ...keys, properties, etag });
    return true;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412 || scope.signal.aborted) {
      throw error;
    }
    const current = await scope.call('get_entity', keys);
    const mine = (await scope.call('read_properties', { properties })).properties;
    showConflict(scope, error, base, current, mine, properties);
    return false;
  }
}

/** @typedef {Map<string, Property>} Version */

/**
 * Merges two versions of an entity with the one that both began with. Returns null if they changed a property in different ways.
 *
 * @param {Version} base
 * @param {Version} mine
 * @param {Version} theirs
 * @returns {Property[] | null}
 */
function merged(base, mine, theirs) {
  const both = [];
  for (const name of new Set([...mine.keys(), ...theirs.keys(), ...base.keys()])) {
    const [own, other] = [mine.get(name), theirs.get(name)];
    if (isSame(own, other)) {
      both.push(own);
    } else if (isSame(own, base.get(name))) {
      both.push(other);
    } else if (isSame(other, base.get(name))) {
      both.push(own);
    } else {
      return null;
    }
  }
  return both.filter((property) => property !== undefined);
}

/** The longest value of a conflict that is shown whole, and what stands before the first difference of a longer one. */
const [WHOLE, BEFORE] = [160, 40];

/**
 * A value beside other versions of it. A long one is shown around its first difference, and whole when one asks.
 *
 * @param {string} value
 * @param {string[]} others all versions
 */
function beside(value, others) {
  if (value.length <= WHOLE) {
    return element('bdi', {}, value);
  }
  const differs = (/** @type {string} */ other) => {
    let place = 0;
    while (place < value.length && value[place] === other[place]) {
      place += 1;
    }
    return place;
  };
  const from = Math.max(0, Math.min(value.length - WHOLE, ...others.map(differs)) - BEFORE);
  const part = value.slice(from, from + WHOLE);
  return element('details', {},
    element('summary', {}, element('bdi', {}, `${from > 0 ? '…' : ''}${part}${from + WHOLE < value.length ? '…' : ''}`),
      element('small', {}, `${number(value.length)} characters`)),
    element('bdi', {}, value));
}

/**
 * @param {Property | undefined} one
 * @param {Property | undefined} other
 */
const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/**
 * @param {Scope} scope
 * @param {Problem} error
 * @param {Entity} base
 * @param {Entity} current
 * @param {Property[]} mine
 * @param {string} properties
 */
function showConflict(scope, error, base, current, mine, properties) {
  const versions = [base.properties, mine, current.properties].map((list) => new Map(list.map((property) => [property[0], property])));
  const [was, own, other] = /** @type {[Version, Version, Version]} */ (versions);
  const all = [...new Set(versions.flatMap((version) => [...version.keys()]))].sort();
  const names = all.filter((name) => !isSame(own.get(name), other.get(name)));
  const others = all.filter((name) => !names.includes(name));
  const cell = (/** @type {Property | undefined} */ property, /** @type {boolean} */ isChanged) => (property
    ? element('td', { class: isChanged ? 'changed' : '' },
      beside(property[2], versions.flatMap((version) => version.get(property[0])?.[2] ?? [])), element('small', {}, property[1].slice(4)))
    : element('td', { class: isChanged ? 'absent changed' : 'absent' }, element('span', { class: 'empty' }, '(absent)')));
  const rows = names.map((name) => {
    const [first, ours, theirs] = [was.get(name), own.get(name), other.get(name)];
    const isBoth = !isSame(first, ours) && !isSame(first, theirs);
    return element('tr', { class: isBoth ? 'both' : '' },
      element('th', { scope: 'row' }, element('bdi', {}, name), isBoth && element('small', {}, 'both changed it')),
      cell(first, false), cell(ours, !isSame(first, ours)), cell(theirs, !isSame(first, theirs)));
  });
  const both = merged(was, own, other);
  const head = (/** @type {string} */ text) => element('th', { scope: 'col' }, text);
  openPanel('Somebody else has changed the entity',
    element('p', {}, element('strong', {}, `${error.code}: `), error.message),
    element('p', { class: 'quiet' }, both
      ? 'You and they changed different properties, so both changes can be kept.'
      : 'You and they changed the same property. Choose what it shall be.'),
    scrolled('The versions',
      element('table', { class: 'versions' },
        element('thead', {}, element('tr', {}, head('Property'), head('It was'), head('Yours'), head('Theirs'))),
        element('tbody', {}, ...rows))),
    others.length > 0 && element('p', { class: 'quiet' },
      `The same in both: ${others.slice(0, 50).join(', ')}${others.length > 50 ? '…' : ''}.`),
    element('p', { class: 'quiet' }, `Theirs was stored at ${current.timestamp}.`),
    element('div', { class: 'tools actions' },
      both && button('Keep both', async () => {
        if (await replace(scope, current, payload(both), current.etag)) {
          done(scope, 'Saved.');
        }
      }, { class: 'primary' }),
      button('Edit yours', () => edit(scope, 'Entity', current, { ...current, properties: mine }, true)),
      button('Edit what is stored', () => edit(scope, 'Entity', current, current, true)),
      button('Replace it by yours', async () => {
        if (await replace(scope, current, properties, current.etag)) {
          done(scope, 'Saved.');
        }
      }, { class: 'danger' })));
  panel.guard = () => askUnlessUnchanged(() => !scope.signal.aborted && byId('panel').querySelector('.versions') !== null);
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
