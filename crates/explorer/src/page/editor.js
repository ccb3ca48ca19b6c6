// The properties of an entity, as rows of names, types and values, and as JSON. The database checks them, so its rules
// are in one place; a fault is shown at its field.

import { Problem, isAbort } from './api.js';
import { paint, partsOfJson } from './colours.js';
import { button, element } from './dom.js';
import { icon } from './icons.js';
import { iconButton } from './menu.js';
import { TYPES, field, textOf, valueOf } from './values.js';

/** @import { Property, Scope } from './api.js' */
/** @typedef {[name: string, type: string, value: string]} Named */

/** The longest JSON that has colours, in characters. */
const COLOURED = 50_000;
/** The pause after the last key before a value is checked, in milliseconds. */
const PAUSE = 200;

/** Members of JSON that are no properties. The service ignores them, so a user's text would be lost. */
const IGNORED = /^(?:PartitionKey|RowKey|Timestamp)$|^odata\.|@odata\./;

/** How values are written, for a text that does not fit its type. */
const FORMS = /** @type {Record<string, string>} */ ({
  'Edm.Int32': 'It is a whole number from −2147483648 to 2147483647.',
  'Edm.Int64': 'It is a whole number from −9223372036854775808 to 9223372036854775807.',
  'Edm.Double': 'It is a number such as 12.5 or 1E+300, or NaN, Infinity or -Infinity.',
  'Edm.Boolean': 'It is true or false.',
  'Edm.DateTime': 'Write it like 2026-01-31T12:00:00Z.',
  'Edm.Guid': 'Write it like c9da6455-213d-42c9-9a79-3e9149a57833.',
  'Edm.Binary': 'Write its bytes as Base64.',
});

/** Properties as JSON. Every value is a text with its type, so none of them goes through a number of JavaScript. */
export function payload(/** @type {(Named | Property)[]} */ properties) {
  const members = properties.map(([name, type, value]) => {
    const key = JSON.stringify(name);
    const text = JSON.stringify(type === 'Edm.String' ? value : value.trim());
    return type === 'Edm.String' ? `${key}:${text}` : `${JSON.stringify(`${name}@odata.type`)}:${JSON.stringify(type)},${key}:${text}`;
  });
  return `{${members.join(',')}}`;
}

/**
 * @param {Property | undefined} one
 * @param {Property | undefined} other
 */
export const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/**
 * Lets the database read properties. Returns them, as a list and as the service writes them, or their fault.
 *
 * @returns {Promise<{properties: Property[], json: string, fault: string}>}
 */
async function readProperties(/** @type {Scope} */ scope, /** @type {string} */ json) {
  try {
    return { ...await scope.call('read_properties', { properties: json }), fault: '' };
  } catch (error) {
    if (error instanceof Problem && error.status >= 400 && error.status < 500) {
      return { properties: [], json: '', fault: error.hint ?? error.message };
    }
    throw error;
  }
}

let faults = 0;

/** The fault of a field, shown below it while the user types. */
export class Fault {
  #turn = 0;
  #timer = 0;

  /**
   * @param {() => Promise<string> | string} find returns what is wrong, or nothing
   * @param {() => Element[]} fields that are wrong then
   */
  constructor(find, fields) {
    this.find = find;
    this.fields = fields;
    faults += 1;
    this.element = element('p', { class: 'fault', id: `fault-${faults}`, 'aria-live': 'polite', hidden: true });
  }

  get isThere() {
    return !this.element.hidden;
  }

  show(/** @type {string} */ words) {
    this.element.textContent = words;
    this.element.hidden = words === '';
    for (const field of this.fields()) {
      field.setAttribute('aria-invalid', String(words !== ''));
      field.setAttribute('aria-describedby', words === '' ? '' : this.element.id);
    }
  }

  /** Checks the field, and shows its fault unless the field has been checked again meanwhile. */
  async check() {
    clearTimeout(this.#timer);
    this.#turn += 1;
    const turn = this.#turn;
    const words = await this.find();
    if (turn === this.#turn && words !== this.element.textContent) {
      this.show(words);
      this.element.dispatchEvent(new Event('editor-changed', { bubbles: true }));
    }
  }

  /** Checks it when the user has stopped typing. Without an answer it shows no fault, and a save asks again. */
  later() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.check().catch((error) => {
      if (!isAbort(error) && !(error instanceof Problem)) {
        throw error;
      }
    }), PAUSE);
  }

  focus() {
    /** @type {HTMLElement | undefined} */ (this.fields().find((one) => one.checkVisibility()))?.focus();
  }
}

/** A property. One that is offered is stored as soon as the user has typed its value. */
class Row {
  /**
   * @param {Editor} editor
   * @param {Named | Property} property
   * @param {Property | null} stored null of one that is added
   * @param {{isOffered?: boolean, isRemoved?: boolean}} [state]
   */
  constructor(editor, [name, type, text], stored, { isOffered = false, isRemoved = false } = {}) {
    const { canWrite } = editor;
    this.editor = editor;
    this.stored = stored;
    this.isOffered = isOffered;
    this.isTouched = !isOffered;
    this.isRemoved = isRemoved;
    this.label = name || 'the new property';
    this.name = element('input', {
      'aria-label': 'Name', placeholder: 'Name', spellcheck: 'false', autocomplete: 'off', readonly: !canWrite || isOffered, title: name,
    });
    this.name.value = name;
    this.type = element('select', { 'aria-label': `Type of ${this.label}`, disabled: !canWrite },
      ...TYPES.map((type) => element('option', { value: `Edm.${type}` }, type)));
    this.type.value = type;
    this.value = field(text, !canWrite);
    this.value.placeholder = isOffered ? 'not set' : '';
    this.value.rows = Math.min(8, text.split('\n').length + Math.floor(text.length / 60));
    this.shown = valueOf(this.value, type, `Value of ${this.label}`);
    this.fault = new Fault(() => this.find(), () => (this.isNameWrong ? [this.name] : [...this.shown.querySelectorAll('textarea')]));
    this.isNameWrong = false;
    this.undo = iconButton('reload', `Undo the change of ${this.label}`, () => this.reset());
    this.drop = iconButton('close', `Remove ${this.label}`, () => this.remove());
    this.element = element('div', { class: 'property', role: 'group', 'aria-label': this.label }, this.name, this.type, this.shown,
      canWrite && element('span', { class: 'row-tools' }, this.undo, this.drop), this.fault.element);
    this.type.addEventListener('change', () => this.changeType());
    this.element.addEventListener('input', ({ target }) => {
      this.isTouched ||= target !== this.type;
      this.update();
      this.fault.later();
    });
    this.update();
  }

  /** Returns offered, added, changed, removed, or nothing for a row that is as it is stored. */
  get state() {
    const { stored } = this;
    if (stored === null) {
      return this.isTouched ? 'added' : 'offered';
    }
    const [name, type, text] = this.property;
    return this.isRemoved ? 'removed' : name === stored[0] && type === stored[1] && text === stored[2] ? '' : 'changed';
  }

  /** @returns {Named} */
  get property() {
    return [this.name.value, this.type.value, textOf(this.value)];
  }

  update() {
    const { state, stored } = this;
    this.element.dataset['state'] = state;
    this.element.title = state === 'changed' && stored ? `It was ${stored[2].slice(0, 80)} (${stored[1].slice(4)})` : '';
    this.undo.hidden = stored === null ? !this.isOffered || !this.isTouched : state === '';
    this.drop.hidden = this.isRemoved;
    for (const one of [this.name, this.type, this.value]) {
      one.toggleAttribute('disabled', this.isRemoved || (one === this.type && !this.editor.canWrite));
    }
    this.editor.tell();
  }

  changeType() {
    if (this.type.value === 'Edm.Boolean' && this.value.value === '' && this.isTouched) {
      this.value.value = 'false';
    }
    const next = valueOf(this.value, this.type.value, `Value of ${this.label}`);
    this.shown.replaceWith(next);
    this.shown = next;
    this.update();
    this.fault.later();
  }

  reset() {
    this.isRemoved = false;
    this.isTouched = !this.isOffered;
    if (this.stored) {
      [this.name.value, this.type.value] = this.stored;
    }
    this.value.value = this.stored?.[2] ?? '';
    this.changeType();
  }

  remove() {
    if (this.stored) {
      this.isRemoved = true;
      this.update();
      this.fault.later();
      this.undo.focus();
    } else {
      this.editor.all = this.editor.all.filter((other) => other !== this);
      this.element.remove();
      this.editor.tell();
      this.editor.add.focus();
    }
  }

  /** Returns the fault of the row. Before a save, an unfinished row has none. */
  async find(isSaved = false) {
    const { state, property } = this;
    const [name, type, text] = property;
    this.isNameWrong = false;
    const isStored = !['added', 'changed'].includes(state) && this.value.validationMessage === '';
    if (isStored || this.isRemoved || (!isSaved && (name === '' || (text === '' && type !== 'Edm.String')))) {
      return '';
    }
    const isTwice = this.editor.rows.some((other) => other !== this && other.name.value === name);
    const fault = IGNORED.test(name) ? `A property cannot have the name ${name}.`
      : isTwice ? `The property ${name || '(without a name)'} is there twice.` : '';
    this.isNameWrong = fault !== '';
    if (fault !== '' || this.value.validationMessage !== '') {
      return fault || `The value of "${name}" is no hex. ${this.value.validationMessage}`;
    }
    const { fault: found } = await readProperties(this.editor.scope, payload([property]));
    this.isNameWrong = found.includes('property name');
    return found && `${found} ${(found.includes(type) && FORMS[type]) || ''}`;
  }
}

/** The properties of an entity, as rows or as JSON. */
export class Editor {
  /**
   * @param {Scope} scope
   * @param {Property[]} stored
   * @param {(Named | Property)[]} properties what the rows begin with
   * @param {boolean} canWrite
   */
  constructor(scope, stored, properties, canWrite) {
    this.scope = scope;
    this.stored = new Map(stored.map((property) => [property[0], property]));
    this.canWrite = canWrite;
    /** Is called after each change. */
    this.tell = () => {};
    this.all = /** @type {Row[]} */ ([]);
    this.list = element('div', { class: 'properties' });
    this.text = element('textarea', {
      rows: 16, spellcheck: 'false', 'aria-label': 'Properties as JSON', readonly: !canWrite,
    });
    this.paper = element('div', { class: 'paper', 'aria-hidden': 'true' });
    this.sheet = element('div', { class: 'sheet', hidden: true }, this.paper, this.text);
    /** The properties of the JSON, as far as the database has read it. */
    this.read = { text: '', properties: /** @type {Property[]} */ ([]) };
    this.fault = new Fault(() => this.readJson(), () => [this.text]);
    this.text.addEventListener('input', () => {
      this.colour();
      this.fault.later();
      this.tell();
    });
    this.add = button([icon('plus'), 'Add a property'], () => this.addRow(['', 'Edm.String', ''], null).name.focus(), {
      class: 'ghost', 'aria-label': 'Add a property' });
    this.toggle = button('As JSON', () => this.switch(), { class: 'ghost', 'aria-pressed': 'false' });
    this.element = element('section', { class: 'editor', 'aria-label': 'Properties' }, this.list, this.sheet, this.fault.element,
      element('div', { class: 'tools' }, canWrite && this.add, this.toggle));
    this.element.addEventListener('editor-changed', () => this.tell());
    this.show(properties);
  }

  get isJson() {
    return !this.sheet.hidden;
  }

  /** The rows that would be saved. */
  get rows() {
    return this.all.filter(({ state }) => state !== 'removed' && state !== 'offered');
  }

  /** How many properties are added, changed or removed. It is not known for JSON that the database has not read yet. */
  get changes() {
    if (!this.isJson) {
      return this.all.filter(({ state }) => state !== '' && state !== 'offered').length;
    }
    const { text, properties } = this.read;
    const read = new Map(properties.map((property) => [property[0], property]));
    const names = new Set([...this.stored.keys(), ...read.keys()]);
    return text !== this.text.value ? null : [...names].filter((name) => !isSame(read.get(name), this.stored.get(name))).length;
  }

  /** How many fields are wrong. */
  get faults() {
    return this.isJson ? Number(this.fault.isThere) : this.all.filter(({ fault }) => fault.isThere).length;
  }

  show(/** @type {(Named | Property)[]} */ properties) {
    this.all = [];
    this.list.replaceChildren();
    const rest = new Map(this.stored);
    for (const property of properties) {
      this.addRow(property, rest.get(property[0]) ?? null);
      rest.delete(property[0]);
    }
    for (const property of rest.values()) {
      this.addRow(property, property, { isRemoved: true });
    }
  }

  /** Adds rows for properties that other entities have: their names and types. */
  offer(/** @type {[string, string][]} */ names) {
    names.forEach(([name, type]) => this.addRow([name, `Edm.${type}`, ''], null, { isOffered: true }));
    this.tell();
  }

  addRow(/** @type {Named | Property} */ property, /** @type {Property | null} */ stored,
    /** @type {{isOffered?: boolean, isRemoved?: boolean}} */ state = {}) {
    const row = new Row(this, property, stored, state);
    this.all.push(row);
    this.list.append(row.element);
    this.tell();
    return row;
  }

  /** The properties to save, in the payload form of the service. */
  json() {
    return this.isJson ? this.text.value : payload(this.rows.map(({ property }) => property));
  }

  /** Reads the JSON. Returns its fault. */
  async readJson() {
    const text = this.text.value;
    const { properties, fault } = await readProperties(this.scope, text);
    if (fault === '') {
      this.read = { text, properties };
      this.tell();
    }
    return fault;
  }

  /** Returns whether all properties can be saved. The first one that cannot gets the focus. */
  async check() {
    const checked = this.isJson ? [this.fault] : this.all.map(({ fault }) => fault);
    await Promise.all(this.isJson ? [this.fault.check()] : this.all.map(async (row) => row.fault.show(await row.find(true))));
    this.tell();
    const wrong = checked.find(({ isThere }) => isThere);
    wrong?.focus();
    return !wrong;
  }

  /** Returns the properties to save, value by value and as the service writes them, or null if they cannot be saved. */
  async checked() {
    return await this.check() ? this.scope.call('read_properties', { properties: this.json() }) : null;
  }

  /** Colours the JSON, unless it has so much text that typing would become slow. */
  colour() {
    const { value } = this.text;
    this.sheet.classList.toggle('plain', value.length > COLOURED);
    paint(this.paper, value, value.length > COLOURED ? [] : partsOfJson(value));
  }

  async switch() {
    const checked = await this.checked();
    if (checked === null) {
      return;
    }
    if (this.isJson) {
      this.show(checked.properties);
    } else {
      this.text.value = onLines(checked.json);
      this.read = { text: this.text.value, properties: checked.properties };
    }
    this.colour();
    this.sheet.hidden = !this.sheet.hidden;
    this.list.hidden = this.isJson;
    this.add.hidden = this.isJson;
    this.toggle.setAttribute('aria-pressed', String(this.isJson));
    this.tell();
  }
}

/** The JSON of properties, which has no lists and no objects, with a line for each member. */
function onLines(/** @type {string} */ json) {
  const names = partsOfJson(json).filter(({ kind }) => kind === 'name');
  const lines = names.map(({ start }, index) => `  ${json.slice(start, names[index + 1]?.start ?? -1)}`);
  return names.length === 0 ? json : `{\n${lines.join('\n')}\n}`;
}
