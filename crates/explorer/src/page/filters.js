// The text of a filter: its tokens, its next token, literals. This is no parser: the database decides.

/** @typedef {{kind: 'word' | 'literal' | '(' | ')' | 'other', text: string, start: number, end: number, isOpen: boolean}} Token */
/** @typedef {{types: Set<string>, values: string[]}} Column the types of a property, without their prefix, and literals of values */
/** @typedef {{text: string, note: string, back?: number}} Completion `back`: how far before its end the caret goes */

/** @type {[string, string][]} */
export const OPERATORS = [
  ['eq', 'equal to'], ['ne', 'not equal to'], ['gt', 'greater than'], ['ge', 'at least'], ['lt', 'less than'], ['le', 'at most'],
];
export const isOperator = (/** @type {string} */ word) => OPERATORS.some(([operator]) => operator === word);
export const isConnective = (/** @type {string} */ word) => word === 'and' || word === 'or';

const LITERAL = /(?<literal>[A-Za-z]*'(?:[^']|'')*(?<close>'?)|[+-]?\d[\w.]*(?:(?<=[eE])[+-]\d+)?|-INF)/u;
const WORD = /(?<word>[\p{L}_@][\p{L}\p{N}_]*)/u;
const TOKEN = new RegExp(`${LITERAL.source}|${WORD.source}|(?<bracket>[()])|\\S`, 'gsu');

/** @returns {Token[]} */
export function tokens(/** @type {string} */ text) {
  return [...text.matchAll(TOKEN)].map((match) => {
    const { literal, close, word, bracket } = match.groups ?? {};
    const kind = literal !== undefined ? 'literal' : word !== undefined ? 'word' : bracket === '(' || bracket === ')' ? bracket : 'other';
    return { kind, text: match[0], start: match.index, end: match.index + match[0].length, isOpen: close === '' };
  });
}

/**
 * Returns the kind of token behind the list: a term, an operator, an operand, or a connective. The first token that
 * cannot be in its place is `wrong`.
 */
export function after(/** @type {Token[]} */ list) {
  /** @type {'term' | 'operator' | 'operand' | 'connective'} */
  let state = 'term';
  let property = '';
  let depth = 0;
  for (const token of list) {
    const { kind, text } = token;
    const isName = kind === 'word' && !isOperator(text) && !isConnective(text);
    if (state === 'term' && kind === '(') {
      depth += 1;
    } else if (state === 'term' && (isName || kind === 'literal')) {
      if (text !== 'not') {
        property = kind === 'word' ? text : '';
        state = 'operator';
      }
    } else if (state === 'operator' && kind === 'word' && isOperator(text)) {
      state = 'operand';
    } else if (state === 'operand' && (isName || kind === 'literal')) {
      state = 'connective';
    } else if ((state === 'operator' || state === 'connective') && kind === 'word' && isConnective(text)) {
      state = 'term';
    } else if ((state === 'operator' || state === 'connective') && kind === ')' && depth > 0) {
      depth -= 1;
      state = 'connective';
    } else {
      return { state, property, depth, wrong: token };
    }
  }
  return { state, property, depth, wrong: null };
}

/**
 * Returns which part of a filter an error is about: the place is in its message (semantics 6.4), in UTF-16 units of the text without
 * the spaces around it. The end of the text is empty: something is missing there.
 */
export function fault(/** @type {string} */ text, /** @type {string} */ message) {
  const place = /at (?:position (\d+)|'(\d+)') in '/.exec(message);
  if (place === null) {
    return null;
  }
  const end = text.trimEnd().length;
  const at = Math.min(Number(place[1] ?? place[2]) + text.length - text.trimStart().length, end);
  const list = tokens(text);
  const last = list.at(-1);
  if (last?.isOpen) {
    return [last.start, end];
  }
  if (message.startsWith('Syntax error at') && at === end && after(list).wrong === null) {
    return [end, end];
  }
  const found = message.startsWith('Syntax error at') ? list.find((token) => token.end === at) : list.find((token) => token.start === at);
  return found ? [found.start, found.end] : [at, Math.min(at + 1, end)];
}

/** Returns whether an error only says that a filter has not ended yet. */
export function isUnfinished(/** @type {string} */ text, /** @type {string} */ message) {
  return text.trim() !== '' && (tokens(text).at(-1)?.isOpen || fault(text, message)?.[0] === text.trimEnd().length);
}

/** Returns a value as a literal of filters, or null if there is none. */
export function literal(/** @type {string} */ type, /** @type {string} */ value) {
  switch (type) {
    case 'String': return `'${value.replaceAll("'", "''")}'`;
    case 'Int64': return `${value}L`;
    case 'Double': return { NaN: null, Infinity: 'INF', '-Infinity': '-INF' }[value] ?? (value === 'NaN' ? null : value);
    case 'DateTime': return `datetime'${value}'`;
    case 'Guid': return `guid'${value}'`;
    case 'Binary': return `X'${[...atob(value)].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('')}'`;
    default: return value;
  }
}

/** Returns a filter with one more condition. */
export function and(/** @type {string} */ filter, /** @type {string} */ condition) {
  const hasOr = tokens(filter).some(({ kind, text }) => kind === 'word' && text === 'or');
  return filter === '' ? condition : `${hasOr ? `(${filter})` : filter} and ${condition}`;
}

/**
 * Returns the texts that can be at the caret, and where the part begins that they replace.
 *
 * @returns {{from: number, items: Completion[]}}
 */
export function completions(/** @type {string} */ text, /** @type {Map<string, Column>} */ columns) {
  const list = tokens(text);
  const last = list.at(-1);
  const typed = last?.end === text.length && (last.kind === 'word' || last.kind === 'literal') ? last : null;
  const { state, property, depth, wrong } = after(typed ? list.slice(0, -1) : list);
  if (wrong) {
    return { from: text.length, items: [] };
  }
  const begun = (typed?.text ?? '').toLowerCase();
  const all = /** @type {Record<typeof state, () => Completion[]>} */ ({
    term: () => [
      ...[...columns].map(([name, { types }]) => ({ text: name, note: [...types].join(' or ') })),
      { text: 'not', note: 'the contrary' }],
    operator: () => [
      ...OPERATORS.map(([operator, note]) => ({ text: operator, note })),
      ...(columns.get(property)?.types.has('Boolean') ? [{ text: 'and', note: '' }, { text: 'or', note: '' }] : [])],
    operand: () => operands(columns.get(property)),
    connective: () => [
      { text: 'and', note: 'both' }, { text: 'or', note: 'one of them' }, ...(depth > 0 ? [{ text: ')', note: '' }] : [])],
  })[state]();
  const begins = all.filter((one) => one.text.toLowerCase().startsWith(begun));
  const part = begun.replace(/^'/, '');
  const contains = all.filter((one) => part.length > 1 && !begins.includes(one) && one.text.toLowerCase().includes(part));
  const items = [...begins, ...contains].slice(0, 50);
  return { from: typed?.start ?? text.length, items: items.some((one) => one.text.toLowerCase() === begun) ? [] : items };
}

/** The operands for a property: values of the page, then the form of its types. */
function operands(/** @type {Column | undefined} */ column) {
  const values = (column?.values ?? []).map((text) => ({ text, note: 'on this page' }));
  const ago = (/** @type {number} */ hours, /** @type {string} */ note) => ({
    text: `datetime'${new Date(Date.now() - hours * 3_600_000).toISOString().slice(0, 19)}Z'`, note });
  /** @type {Record<string, Completion[]>} */
  const forms = {
    String: [{ text: "''", note: 'a text', back: 1 }],
    Boolean: [{ text: 'true', note: '' }, { text: 'false', note: '' }],
    DateTime: [ago(1, 'an hour ago'), ago(24, 'a day ago'), ago(168, 'a week ago')],
    Guid: [{ text: "guid''", note: 'a Guid', back: 1 }],
    Binary: [{ text: "X''", note: 'bytes in hexadecimal', back: 1 }],
  };
  const types = [...(column?.types ?? ['String'])];
  const known = new Set(values.map(({ text }) => text));
  return [...values, ...types.flatMap((type) => forms[type] ?? []).filter(({ text }) => !known.has(text))];
}

/** The type of a literal, and its value without its form. */
function read(/** @type {string} */ text) {
  const quoted = /^([A-Za-z]*)'(.*)'$/s.exec(text);
  if (quoted) {
    const type = { '': 'String', datetime: 'DateTime', guid: 'Guid', X: 'Binary', binary: 'Binary' }[quoted[1] ?? ''] ?? '';
    return { type, value: (quoted[2] ?? '').replaceAll("''", "'") };
  }
  if (/^(?:true|false)$/.test(text)) {
    return { type: 'Boolean', value: text };
  }
  const isLong = text.endsWith('L') || (/^[+-]?\d+$/.test(text) && Math.abs(Number(text)) > 2_147_483_647);
  return { type: isLong ? 'Int64' : /^[+-]?\d+$/.test(text) ? 'Int32' : 'Double', value: text.replace(/[Ld]$|\.0+$/, '') };
}

/** The types of literals that a property is compared with, if not only its own: the literal is widened (semantics 6.3). */
const WIDENED = /** @type {Record<string, string[]>} */ ({ Int64: ['Int32', 'Int64'], Double: ['Int32', 'Int64', 'Double'] });

/** The forms of values that a text may have been meant as. */
const FORMS = /** @type {Record<string, RegExp>} */ ({
  Int32: /^-?\d+$/, Int64: /^-?\d+$/, Double: /^-?\d+(?:\.\d+)?$/, Boolean: /^(?:true|false)$/,
  DateTime: /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z$/, Guid: /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i, String: /^/,
});

/**
 * Says why a filter may find nothing, if its text shows that: a property that no entity has, or a literal of another type than all
 * values. `mended` is the filter that may have been meant.
 *
 * @param {string} filter
 * @param {Map<string, Column>} columns of entities that a filter has not selected
 * @returns {{reason: string, mended: string | null}[]}
 */
export function whyNothing(filter, columns) {
  const list = tokens(filter);
  const found = [];
  const replaced = (/** @type {Token} */ { start, end }, /** @type {string} */ text) => filter.slice(0, start) + text + filter.slice(end);
  for (const [index, token] of list.entries()) {
    const operator = list[index + 1];
    const operand = list[index + 2];
    const isCompared = token.kind === 'word' && operator?.kind === 'word' && isOperator(operator.text);
    if (!isCompared || !operand) {
      continue;
    }
    const column = columns.get(token.text);
    if (!column) {
      const near = [...columns.keys()].filter((name) => distance(name.toLowerCase(), token.text.toLowerCase()) <= 2)
        .sort((a, b) => distance(a, token.text) - distance(b, token.text))[0];
      found.push({
        reason: `No entity on the first page of the table has ${token.text}${near === undefined ? '.' : `; there is ${near}.`}`,
        mended: near === undefined ? null : replaced(token, near),
      });
      continue;
    }
    const isLiteral = operand.kind === 'literal' || /^(?:true|false)$/.test(operand.text);
    const { type, value } = read(operand.text);
    const [first = ''] = column.types;
    if (isLiteral && ![...column.types].some((one) => (WIDENED[one] ?? [one]).includes(type))) {
      const better = FORMS[first]?.test(value) ? literal(first, value) : null;
      const what = `${token.text} is ${/^[AI]/.test(first) ? 'an' : 'a'} ${first} here`;
      found.push({
        reason: better === null ? `${what}, and ${operand.text} is none.` : `${what}; write ${better}, not ${operand.text}.`,
        mended: better === null ? null : replaced(operand, better),
      });
    }
  }
  return found;
}

/** How many characters differ between two names. */
function distance(/** @type {string} */ a, /** @type {string} */ b) {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, one] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      next.push(Math.min((row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1, (row[j] ?? 0) + (b[j] === one ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
