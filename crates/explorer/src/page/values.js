// Values as people edit them: a text is the truth, and beside it is a control for its type: a switch, a date and a
// time, bytes as hex or as a text, JSON as a tree.

import { element, segments } from './dom.js';
import { icon } from './icons.js';
import { opens } from './menu.js';

export const TYPES = ['String', 'Int32', 'Int64', 'Double', 'Boolean', 'DateTime', 'Guid', 'Binary'];

const MOMENT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(\.\d+)?Z$/;
/** The most members of JSON that are shown below one. */
const MEMBERS = 200;
/** The longest word, in characters. */
const WORD = 64;

/** The texts that fields began with: a textarea makes \n of \r\n and of \r. */
const originals = /** @type {WeakMap<HTMLTextAreaElement, string>} */ (new WeakMap());

export function field(/** @type {string} */ value, /** @type {boolean} */ isReadOnly) {
  const made = element('textarea', { rows: 1, spellcheck: 'false', dir: 'auto', readonly: isReadOnly });
  made.value = value;
  originals.set(made, value);
  // A word, such as a mail address, is not broken.
  const fit = () => made.classList.toggle('word', made.value.length <= WORD && !/\s/.test(made.value));
  made.addEventListener('input', fit);
  fit();
  return made;
}

/**
 * Returns the text of a field. A textarea has `\n` for every line end. An unedited text keeps its line ends, and an edited one gets
 * its first line end everywhere.
 */
export function textOf(/** @type {HTMLTextAreaElement} */ made) {
  const original = originals.get(made) ?? '';
  const [end = '\n'] = /\r\n?|\n/.exec(original) ?? [];
  return made.value === original.replaceAll(/\r\n?/g, '\n') ? original : made.value.replaceAll('\n', end);
}

/** Gives a field another text, as if the user had typed it. */
function type(/** @type {HTMLTextAreaElement} */ made, /** @type {string} */ text) {
  made.value = text;
  made.dispatchEvent(new Event('input', { bubbles: true }));
}

/** The controls around the field of a value. They depend on the type, and are made anew when the type changes. */
export function valueOf(/** @type {HTMLTextAreaElement} */ truth, /** @type {string} */ edm, /** @type {string} */ label) {
  truth.hidden = false;
  truth.removeAttribute('aria-invalid');
  truth.setCustomValidity('');
  truth.setAttribute('aria-label', label);
  truth.inputMode = { 'Edm.Int32': 'numeric', 'Edm.Int64': 'numeric', 'Edm.Double': 'decimal' }[edm] ?? '';
  const value = element('div', { class: 'value' }, truth);
  if (edm === 'Edm.Boolean' && !truth.readOnly) {
    value.prepend(toggle(truth, label));
  } else if (edm === 'Edm.DateTime') {
    value.append(...moment(truth, label));
  } else if (edm === 'Edm.Binary') {
    value.append(...binary(truth, label));
  } else if (edm === 'Edm.String') {
    value.append(tree(truth, label));
  }
  return value;
}

/** A switch, as long as the text is true, false or not there. */
function toggle(/** @type {HTMLTextAreaElement} */ truth, /** @type {string} */ label) {
  const made = element('button', { type: 'button', role: 'switch', class: 'switch', 'aria-label': label });
  const word = element('span', {});
  made.append(element('span', { class: 'knob', 'aria-hidden': 'true' }), word);
  const show = () => {
    const isKnown = /^(?:true|false)?$/i.test(truth.value);
    truth.hidden = isKnown;
    made.hidden = !isKnown;
    word.textContent = truth.value.toLowerCase() || 'not set';
    made.setAttribute('aria-checked', String(truth.value.toLowerCase() === 'true'));
  };
  truth.addEventListener('input', show);
  made.addEventListener('click', () => type(truth, String(truth.value.toLowerCase() !== 'true')));
  show();
  return made;
}

/** A date and a time in UTC, and the same moment where the browser is. */
function moment(/** @type {HTMLTextAreaElement} */ truth, /** @type {string} */ label) {
  const local = element('small', {});
  const show = () => {
    const time = Date.parse(truth.value);
    local.textContent = MOMENT.test(truth.value) && !Number.isNaN(time) ? here(new Date(time)) : '';
  };
  truth.addEventListener('input', show);
  show();
  if (truth.readOnly) {
    return [local];
  }
  const opener = element('button', {
    type: 'button', class: 'ghost icon-only', 'aria-label': `Choose the ${label.replace('Value', 'date and time')}`, title: 'Date and time',
  }, icon('clock'));
  const picker = opens(opener, { role: 'dialog', 'aria-label': 'Date and time in UTC', class: 'menu picker' }, (close) => {
    const [, before = '', fraction = ''] = MOMENT.exec(truth.value) ?? [];
    const input = element('input', { type: 'datetime-local', step: '1', value: before, 'aria-label': 'Moment' });
    const seconds = (/** @type {string} */ text) => (text.length === 16 ? `${text}:00` : text);
    // A fraction that the picker does not show stays with its second.
    input.addEventListener('input', () => input.value
      && type(truth, `${seconds(input.value)}${seconds(input.value).slice(11) === seconds(before).slice(11) ? fraction : ''}Z`));
    const end = (/** @type {string} */ text, /** @type {() => void} */ action) => element('button', { type: 'button', onclick: () => {
      action();
      close();
      opener.focus();
    } }, text);
    return [element('div', { class: 'tools' }, input, element('span', { class: 'quiet' }, 'UTC')),
      element('div', { class: 'tools' }, end('Done', () => {}), end('Now', () => type(truth, new Date().toISOString())))];
  });
  return [picker, local];
}

/** A moment where the browser is, in words. */
export function here(/** @type {Date} */ date) {
  return date.toLocaleString('en-GB', {
    day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', timeZoneName: 'short',
  });
}

/** @returns {Uint8Array | null} null of what is no Base64 */
function bytesOf(/** @type {string} */ base64) {
  try {
    return Uint8Array.from(atob(base64.trim()), (unit) => unit.charCodeAt(0));
  } catch {
    return null;
  }
}

/** @param {Uint8Array} bytes */
function base64Of(bytes) {
  let text = '';
  for (const byte of bytes) {
    text += String.fromCharCode(byte);
  }
  return btoa(text);
}

/** Ways to show and to write bytes. Each returns null for bytes or texts that it cannot show or read. */
const FORMS = {
  Base64: {
    show: base64Of,
    read: bytesOf,
  },
  Hex: {
    show: (/** @type {Uint8Array} */ bytes) => Array.from(bytes, (byte, index) => (
      byte.toString(16).padStart(2, '0') + (index % 8 === 7 ? '\n' : index % 4 === 3 ? '  ' : ' '))).join('').trimEnd(),
    read: (/** @type {string} */ text) => {
      const digits = text.replaceAll(/\s/g, '');
      return /^(?:[0-9a-f]{2})*$/i.test(digits)
        ? Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)) : null;
    },
  },
  Text: {
    show: (/** @type {Uint8Array} */ bytes) => {
      try {
        const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
        return text.includes('\r') ? null : text;
      } catch {
        return null;
      }
    },
    read: (/** @type {string} */ text) => new TextEncoder().encode(text),
  },
};

/** Bytes as Base64, as hex and as a text. */
function binary(/** @type {HTMLTextAreaElement} */ truth, /** @type {string} */ label) {
  const other = element('textarea', { rows: 1, spellcheck: 'false', readonly: truth.readOnly, hidden: true });
  const size = element('small', {});
  const names = /** @type {(keyof typeof FORMS)[]} */ (Object.keys(FORMS));
  let form = /** @type {keyof typeof FORMS} */ ('Base64');
  const group = segments(`Form of the ${label.toLowerCase()}`, names, form, (name) => {
    choose(name);
    type(truth, truth.value);
  });
  const show = () => {
    const bytes = bytesOf(truth.value);
    size.textContent = bytes ? `${bytes.length} byte${bytes.length === 1 ? '' : 's'}` : '';
    for (const button of group.querySelectorAll('button')) {
      const name = /** @type {keyof typeof FORMS} */ (button.textContent);
      button.disabled = !bytes || FORMS[name].show(bytes) === null;
    }
    truth.hidden = form !== 'Base64';
    other.hidden = form === 'Base64';
  };
  const choose = (/** @type {keyof typeof FORMS} */ name) => {
    form = name;
    other.value = FORMS[name].show(bytesOf(truth.value) ?? new Uint8Array()) ?? '';
    other.setAttribute('aria-label', `${label} as ${name.toLowerCase()}`);
    truth.setCustomValidity('');
    show();
  };
  other.addEventListener('input', (event) => {
    event.stopPropagation();
    const bytes = FORMS[form].read(other.value);
    // Nothing is saved of an invalid field.
    truth.setCustomValidity(bytes === null ? 'Each byte has two digits of 0 to 9 and a to f.' : '');
    type(truth, bytes ? base64Of(bytes) : truth.value);
  });
  truth.addEventListener('input', show);
  choose('Base64');
  return [other, element('div', { class: 'value-tools' }, group, size)];
}

/** Lists and objects of JSON in a text can be looked at as a tree. */
function tree(/** @type {HTMLTextAreaElement} */ truth, /** @type {string} */ label) {
  const look = element('button', { type: 'button', class: 'link' });
  const where = element('div', { class: 'tree', hidden: true });
  const made = element('div', {}, where, element('div', { class: 'value-tools' }, look));
  const show = () => {
    const value = parsed(truth.value);
    made.hidden = value === undefined;
    if (value === undefined) {
      where.hidden = true;
    } else if (!where.hidden) {
      where.replaceChildren(node('', value, true));
    }
    truth.hidden = !where.hidden;
    look.setAttribute('aria-expanded', String(!where.hidden));
    look.textContent = where.hidden ? 'Tree' : 'Text';
    look.setAttribute('aria-label', `${look.textContent}: ${label}`);
  };
  look.addEventListener('click', () => {
    where.hidden = !where.hidden;
    show();
  });
  truth.addEventListener('input', show);
  show();
  return made;
}

/** A number as it was written: a browser would round it. */
class Numeral {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/** Returns a list or an object of JSON, or undefined for any other text. */
function parsed(/** @type {string} */ text) {
  if (!/^\s*[[{]/.test(text)) {
    return undefined;
  }
  try {
    /** @type {(key: string, value: unknown, context?: {source?: string}) => unknown} */
    const keep = (_, value, context) => (typeof value === 'number' ? new Numeral(context?.source ?? String(value)) : value);
    return JSON.parse(text, keep);
  } catch {
    return undefined;
  }
}

function node(/** @type {string} */ name, /** @type {unknown} */ value, /** @type {boolean} */ isOpen = false) {
  const label = name && element('bdi', { class: 'member' }, name, ': ');
  if (value === null || typeof value !== 'object' || value instanceof Numeral) {
    const [kind, text] = value instanceof Numeral ? ['number', value.text]
      : [value === null ? 'null' : typeof value, typeof value === 'string' ? JSON.stringify(value) : String(value)];
    return element('div', { class: 'leaf' }, label, element('bdi', { class: `json-${kind}` }, text));
  }
  const members = Object.entries(value);
  const isList = Array.isArray(value);
  const size = `${isList ? '[' : '{'}${members.length}${isList ? ']' : '}'}`;
  const made = element('details', { open: isOpen }, element('summary', {}, label, element('small', {}, size)));
  const fill = () => {
    if (made.open && made.childElementCount === 1) {
      made.append(...members.slice(0, MEMBERS).map(([key, member]) => node(key, member)),
        members.length > MEMBERS ? element('small', {}, `and ${members.length - MEMBERS} more`) : '');
    }
  };
  made.addEventListener('toggle', fill);
  fill();
  return made;
}
