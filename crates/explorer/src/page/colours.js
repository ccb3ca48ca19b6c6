// Colours of filters and of JSON. A field cannot colour its text, so it shows none, and a layer below it has the same text in colours.

import { element } from './dom.js';
import { isConnective, isOperator, tokens } from './filters.js';

/** @typedef {{start: number, end: number, kind: 'string' | 'number' | 'word' | 'name'}} Part */

const JSON_PART = /(?<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<string>"(?:[^"\\]|\\.)*")|(?<number>-?\d[\d.eE+-]*)|(?<word>true|false|null)/gs;

/** @returns {Part[]} */
export function partsOfJson(/** @type {string} */ text) {
  return [...text.matchAll(JSON_PART)].map(({ index, 0: part, groups = {} }) => ({
    start: index, end: index + part.length,
    kind: groups['name'] ? 'name' : groups['string'] ? 'string' : groups['number'] ? 'number' : 'word',
  }));
}

/** @returns {Part[]} */
export function partsOfFilter(/** @type {string} */ text) {
  return tokens(text).map(({ kind, text, start, end }) => ({
    start, end,
    kind: kind === 'literal' ? (text.includes("'") ? 'string' : 'number')
      : isOperator(text) || isConnective(text) || /^(?:not|true|false)$/.test(text) ? 'word' : 'name',
  }));
}

/** Fills an element with a text in colours. */
export function paint(/** @type {Element} */ layer, /** @type {string} */ text, /** @type {Part[]} */ parts) {
  let at = 0;
  const children = parts.flatMap(({ start, end, kind }) => {
    const before = text.slice(at, start);
    at = end;
    return [before, element('span', { class: kind }, text.slice(start, end))];
  });
  layer.replaceChildren(...children, text.slice(at));
}
