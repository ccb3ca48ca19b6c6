// An import: a preview of the beginning of a file, the columns that become the keys and the properties, and then the
// file part by part as it is.

import { Problem } from './api.js';
import { element, form, labelled, number, say, scrolled } from './dom.js';
import { closePanel, openPanel } from './panel.js';
import { go } from './route.js';
import { TYPES } from './values.js';

/** @import { Scope } from './api.js' */
/** @typedef {{name: string, type: string | null}} Column */
/**
 * An import with a mapping leaves more columns out, if there are. The preview is whole if it has read to the end.
 *
 * @typedef {{form: 'lines' | 'document' | 'csv', delimiter: string, hasKeys: boolean, columns: Column[], hasMoreColumns: boolean,
 *   rows: (string | null)[][], read: number, isWhole: boolean}} Preview
 */

/** The number of characters of a file that its preview has, and the first call of its import. */
const PART = 65_536;
/** The most rows that a preview reads. */
const ROWS = 1000;
const FORMS = { lines: 'JSON lines', document: 'a JSON document', csv: 'CSV' };
/** Common names of columns that are keys here. */
const KEYS = {
  PartitionKey: /^(?:partition_?key|pk|tenant|customer|account|country|region|category|group|type)(?:_?id)?$/i,
  RowKey: /^(?:row_?key|rk|id|_id|key|uuid|guid|code|number|name)$/i,
};

/** The texts of a file, in UTF-8 or UTF-16. A compressed one is unpacked. */
async function* textsOf(/** @type {File} */ file) {
  const stream = /\.gz$/i.test(file.name) ? file.stream().pipeThrough(new DecompressionStream('gzip')) : file.stream();
  const [first = 0, second = 0] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  // As the copy program tells it: by a mark, or by the other byte of the first character, which is of ASCII.
  const coding = first === 0xff || (first !== 0 && second === 0) ? 'utf-16le' : first === 0xfe || first === 0 ? 'utf-16be' : 'utf-8';
  const decoder = new TextDecoder(file.size < 2 || /\.gz$/i.test(file.name) ? 'utf-8' : coding, { fatal: true });
  const reader = stream.getReader();
  let read = 0;
  for (let isLast = false; !isLast;) {
    let more;
    try {
      const { value, done } = await reader.read();
      isLast = done;
      read += value?.length ?? 0;
      more = decoder.decode(value, { stream: !isLast });
    } catch {
      throw new Problem(400, 'InvalidInput', 'The file is neither UTF-8 nor UTF-16.');
    }
    yield { more, read, isLast };
  }
}

/**
 * Reads the beginning of a file.
 *
 * @returns {Promise<Preview>}
 */
async function preview(/** @type {Scope} */ scope, /** @type {File} */ file) {
  if (/\.zst$/i.test(file.name)) {
    throw new Problem(400, 'InvalidInput', 'A browser cannot unpack this file.',
      'Unpack it with zstd -d, or import it with table-service-copy.');
  }
  let part = '';
  let isWhole = false;
  for await (const { more, isLast } of textsOf(file)) {
    part += more;
    isWhole = isLast;
    if (part.length > PART) {
      break;
    }
  }
  const found = await scope.call('preview_import', { isCsv: /\.(?:csv|tsv|txt)(?:\.gz)?$/i.test(file.name), part, isLast: isWhole });
  return { ...found, isWhole: isWhole && found.read < ROWS };
}

/** @param {Scope} scope */
export function importEntities(scope) {
  const file = element('input', { type: 'file', required: true, accept: '.jsonl,.ndjson,.json,.csv,.tsv,.txt,.gz,.zst' });
  const mode = element('select', {},
    element('option', { value: 'insert' }, 'stop'),
    element('option', { value: 'replace' }, 'replace it'),
    element('option', { value: 'merge' }, 'merge into it'));
  const progress = element('progress', { max: 1, value: 0, 'aria-label': 'Imported', hidden: true });
  const told = element('p', { role: 'status' });
  const look = element('div', { class: 'look' });
  let looked = /** @type {Promise<{found: Preview, mapping: () => object | null}> | null} */ (null);
  file.addEventListener('change', () => {
    const chosen = file.files?.[0];
    look.replaceChildren();
    looked = chosen ? preview(scope, chosen).then((found) => ({ found, mapping: showPreview(look, found) })) : null;
    // An import shows the error. Until then the user has not asked.
    looked?.catch(() => {});
  });
  const start = async () => {
    const chosen = file.files?.[0];
    if (chosen && looked) {
      await importFile(scope, chosen, looked, mode.value, progress, told);
    }
  };
  const submit = form(start,
    element('p', { class: 'quiet' }, 'JSON lines, a JSON array or document, or CSV: the files of an export, of table-service-copy and of '
      + 'Azure Storage Explorer, and others whose columns become keys. Each 200 entities are a transaction.'),
    labelled('File', file), labelled('If an entity exists', mode), look, progress, told,
    element('button', { class: 'primary' }, 'Import'));
  submit.classList.add('import');
  openPanel('Import', submit);
  file.focus();
}

/** Imports a file part by part, as long as the panel says how far it is. */
async function importFile(/** @type {Scope} */ scope, /** @type {File} */ file,
  /** @type {Promise<{found: Preview, mapping: () => object | null}>} */ looked, /** @type {string} */ mode,
  /** @type {HTMLProgressElement} */ progress, /** @type {HTMLElement} */ told) {
  let written = 0;
  let text = '';
  try {
    const { found: { form, delimiter }, mapping } = await looked;
    const call = { table: scope.route.table, mode, form, delimiter, mapping: mapping() };
    progress.hidden = false;
    let length = PART;
    /** @type {{head: string | null, line: number, column: number}} */
    let { head, line, column } = { head: null, line: 1, column: 1 };
    for await (const { more, read, isLast } of textsOf(file)) {
      text += more;
      while (told.isConnected && (text.length >= length || (isLast && text))) {
        // A character of two units is not divided.
        const part = text.slice(0, /[\uD800-\uDBFF]/.test(text.charAt(length - 1)) ? length + 1 : length);
        const isEnd = isLast && part.length === text.length;
        const answer = await scope.step('import_entities', { ...call, head, part, line, column, isLast: isEnd });
        text = text.slice(answer.taken);
        length = 2 * (answer.taken || length);
        written += answer.written;
        ({ head, line, column } = answer);
        told.textContent = `Imported ${number(written)}.`;
        progress.value = read / Math.max(file.size, 1);
      }
      if (!told.isConnected) {
        break;
      }
    }
  } catch (error) {
    if (error instanceof Problem) {
      error.hint = `${number(written)} entities were written before. ${error.hint ?? ''}`;
    }
    throw error;
  } finally {
    dispatchEvent(new Event('tables-changed'));
  }
  say(`Imported ${number(written)} entities${text ? ', then stopped' : ''}.`);
  scope.signal.throwIfAborted();
  closePanel();
  go({});
}

/** Shows the first rows, and asks for the keys if the columns have other names. Returns the mapping's reader. */
function showPreview(/** @type {HTMLElement} */ where, /** @type {Preview} */ found) {
  const { columns, rows, read, isWhole } = found;
  const head = element('h3', {}, `${FORMS[found.form]}${found.form === 'csv' && found.delimiter !== ',' ? ` with ${
    { ';': 'semicolons', '\t': 'tabs', '|': 'bars' }[found.delimiter] ?? found.delimiter}` : ''}`);
  const table = scrolled('First rows');
  const shown = (/** @type {string[]} */ names) => element('table', {},
    element('thead', {}, element('tr', {}, ...names.map((name) => element('th', { scope: 'col' }, element('bdi', {}, name))))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((text) => element('td', { class: text === null ? 'absent' : '' },
      text === null ? '' : element('bdi', {}, text)))))));
  const more = found.hasMoreColumns ? ` It has more than the ${number(columns.length)} columns shown here${
    found.hasKeys ? '' : ', and the others are left out'}.` : '';
  const caption = element('p', { class: 'quiet' }, `The first ${number(rows.length)} of ${
    isWhole ? number(read) : `at least ${number(read)}`} rows.${more}`);
  if (found.hasKeys || columns.length === 0) {
    table.replaceChildren(shown(columns.map(({ name }) => name)));
    where.replaceChildren(head, caption, table);
    return () => null;
  }
  const keys = Object.entries(KEYS).map(([key, pattern]) => keyChoice(key, columns, pattern));
  const properties = columns.map((column) => propertyChoice(column, found.form === 'csv' ? 'String' : 'as it is'));
  const update = () => {
    const taken = new Set(keys.map(({ column }) => column()));
    columns.forEach(({ name }, index) => {
      properties[index]?.setKey(taken.has(name) ? keys.filter(({ column }) => column() === name).map(({ key }) => key).join(', ') : '');
    });
  };
  const choices = element('div', { class: 'mapping' }, ...keys.map(({ made }) => made),
    scrolled('Columns', element('table', {},
      element('thead', {}, element('tr', {},
        ...['Column', 'becomes the property', 'of type'].map((text) => element('th', { scope: 'col' }, text)))),
      element('tbody', {}, ...properties.map(({ made }) => made)))));
  choices.addEventListener('input', update);
  update();
  table.replaceChildren(shown(columns.map(({ name }) => name)));
  const words = element('p', {}, 'The file has no PartitionKey and RowKey. Choose what becomes the keys.');
  where.replaceChildren(head, words, choices, caption, table);
  return () => ({
    partitionKey: keys[0]?.value(), rowKey: keys[1]?.value(), columns: properties.flatMap(({ value }) => value() ?? []),
  });
}

/** A choice of the column that becomes a key, or of a text for all entities. */
function keyChoice(/** @type {string} */ key, /** @type {Column[]} */ columns, /** @type {RegExp} */ pattern) {
  const choice = element('select', {}, ...columns.map(({ name }, index) => element('option', { value: String(index) }, name)),
    element('option', { value: 'text' }, 'the same text for all'));
  const text = element('input', { 'aria-label': `Text of the ${key}`, spellcheck: 'false', autocomplete: 'off' });
  const likely = columns.findIndex(({ name }) => pattern.test(name));
  choice.value = likely >= 0 ? String(likely) : key === 'PartitionKey' ? 'text' : '0';
  const show = () => {
    text.hidden = choice.value !== 'text';
  };
  choice.addEventListener('input', show);
  show();
  const column = () => (choice.value === 'text' ? null : columns[Number(choice.value)]?.name ?? null);
  return {
    key, column,
    made: element('div', { class: 'key-choice' }, labelled(key, choice), text),
    value: () => (choice.value === 'text' ? { text: text.value } : { column: column() }),
  };
}

/**
 * @param {Column} column
 * @param {string} otherwise what stands for no type
 */
function propertyChoice({ name, type }, otherwise) {
  const target = element('input', {
    'aria-label': `Property of ${name}`, spellcheck: 'false', autocomplete: 'off', placeholder: 'left out',
  });
  // Names of properties are those of identifiers.
  target.value = name.replaceAll(/[^\p{L}\p{N}_]/gu, '_').replace(/^(?=\p{N})/u, '_');
  const types = element('select', { 'aria-label': `Type of ${name}` }, element('option', { value: '' }, otherwise),
    ...TYPES.filter((one) => one !== otherwise).map((one) => element('option', { value: `Edm.${one}` }, one)));
  types.value = type ?? '';
  const note = element('span', { class: 'badge', hidden: true });
  return {
    made: element('tr', {}, element('th', { scope: 'row' }, element('bdi', {}, name)),
      element('td', {}, note, target), element('td', {}, types)),
    setKey: (/** @type {string} */ key) => {
      note.textContent = key;
      note.hidden = key === '';
      target.hidden = types.hidden = key !== '';
    },
    value: () => (target.hidden ? null : { from: name, to: target.value.trim() || null, type: types.value || null }),
  };
}
