// Files of entities: JSON lines, and CSV as Azure Storage Explorer and the export write it.

import { Problem } from './api.js';
import { payload } from './entity.js';

/** @typedef {{json: string, line: number, read: number}} Read an entity, its line, and how many bytes of the file were read */

/**
 * The entities of a file, one after the other.
 *
 * @param {File} file
 * @returns {AsyncGenerator<Read>}
 */
export async function* entitiesOf(file) {
  const isCsv = /\.(csv|txt)$/i.test(file.name);
  let line = 0;
  if (!isCsv) {
    for await (const { text, read } of linesOf(file)) {
      line += 1;
      if (text.trim()) {
        yield { json: text, line, read };
      }
    }
    return;
  }
  /** @type {Field[] | null} */
  let head = null;
  for await (const { row, line: at, read } of rowsOf(file)) {
    if (head === null) {
      head = row;
    } else if (row.length !== head.length) {
      throw new Problem(400, 'InvalidInput', `Line ${at} has ${row.length} fields, and the first line ${head.length}.`);
    } else {
      yield { json: entityOf(head, row), line: at, read };
    }
  }
}

/** @param {File} file */
async function* textsOf(file) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const reader = file.stream().getReader();
  let read = 0;
  for (;;) {
    const { value, done } = await reader.read();
    read += value?.length ?? 0;
    let text;
    try {
      text = decoder.decode(value, { stream: !done });
    } catch {
      throw new Problem(400, 'InvalidInput', 'The file is not UTF-8.');
    }
    yield { text, read };
    if (done) {
      return;
    }
  }
}

/** @param {File} file */
async function* linesOf(file) {
  let rest = '';
  let bytes = 0;
  for await (const { text, read } of textsOf(file)) {
    bytes = read;
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      yield { text: line, read };
    }
  }
  yield { text: rest, read: bytes };
}

/** @typedef {{text: string, isQuoted: boolean}} Field */

/**
 * Rows of CSV (RFC 4180).
 *
 * @param {File} file
 */
async function* rowsOf(file) {
  /** @type {Field[]} */
  let row = [];
  let text = '';
  let isQuoted = false;
  /** Whether the last character was a quote in a field with quotes: the end of the field, or the first of two. */
  let isEnding = false;
  let line = 1;
  let began = 1;
  let bytes = 0;
  let isInside = false;
  const endField = () => {
    row.push({ text, isQuoted });
    text = '';
    isQuoted = false;
    isEnding = false;
    isInside = false;
  };
  for await (const { text: part, read } of textsOf(file)) {
    bytes = read;
    for (const character of part) {
      if (character === '\n') {
        line += 1;
      }
      if (isInside && !isEnding) {
        if (character === '"') {
          isEnding = true;
        } else {
          text += character;
        }
      } else if (isEnding && character === '"') {
        text += '"';
        isEnding = false;
      } else if (character === ',') {
        endField();
      } else if (character === '\n') {
        endField();
        if (row.length > 1 || row[0]?.text) {
          yield { row, line: began, read };
        }
        row = [];
        began = line;
      } else if (character === '"' && text === '' && !isQuoted) {
        isInside = true;
        isQuoted = true;
      } else if (character !== '\r') {
        if (isEnding || character === '"') {
          throw new Problem(400, 'InvalidInput', `Line ${line} is no CSV: a quote stands where none can be.`);
        }
        text += character;
      }
    }
  }
  if (isInside && !isEnding) {
    throw new Problem(400, 'InvalidInput', `The file ends within a field that began in line ${began}.`);
  }
  if (text || isQuoted || row.length) {
    endField();
    yield { row, line: began, read: bytes };
  }
}

/** The column of a file whose texts got apostrophes where a spreadsheet would find a formula (formula.rs of the model). */
const ESCAPED = 'odata.apostrophes';

/** The text without the apostrophes of the export. */
const unescaped = (/** @type {string} */ text) => text.replace(/(^|[;\t\r\n])("*)'(?=[=+\-@'＝＋－＠])/g, '$1$2');

/**
 * @param {Field[]} head
 * @param {Field[]} row
 */
function entityOf(head, row) {
  const isEscaped = head.some(({ text }) => text === ESCAPED);
  const plain = (/** @type {string} */ text) => (isEscaped ? unescaped(text) : text);
  const types = new Map();
  const values = new Map();
  head.forEach(({ text: name }, index) => {
    const field = row[index];
    if (!field) {
      return;
    }
    if (name.endsWith('@type')) {
      types.set(name.slice(0, -'@type'.length), field.text);
    } else {
      values.set(name, field);
    }
  });
  /** @type {[string, string, string][]} */
  const properties = [];
  for (const [name, field] of values) {
    const given = types.get(name) ?? '';
    const type = given === '' || given.startsWith('Edm.') ? given : `Edm.${given}`;
    if (name === 'PartitionKey' || name === 'RowKey') {
      properties.push([name, 'Edm.String', plain(field.text)]);
    } else if (name !== 'Timestamp' && !name.startsWith('odata.') && (field.text || field.isQuoted || type)) {
      const isText = type === '' || type === 'Edm.String';
      const isFlag = type === 'Edm.Boolean';
      properties.push([name, type || 'Edm.String', isText ? plain(field.text) : isFlag ? field.text.toLowerCase() : field.text]);
    }
  }
  return payload(properties);
}
