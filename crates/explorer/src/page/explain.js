// How PostgreSQL would find a filter's entities, as a picture: key ranges on a line, and the amounts read and found.

import { Problem } from './api.js';
import { paint, partsOfFilter } from './colours.js';
import { button, element, number, say } from './dom.js';
import { tokens } from './filters.js';
import { go } from './route.js';

/** @import { Scope } from './api.js' */
/** @typedef {{access: string, key_ranges: string[] | null, residual: string | null, sql: string, plan: string}} Explained */

/** The most ranges on the line. */
const RANGES = 8;
/** A scan is worth an index if it has read so many rows for nothing. */
const WASTE = 100;

/** The access classes in words. */
const CLASSES = new Map([
  ['point query', 'reads what has just these keys'],
  ['row range scan', 'reads entities of one partition'],
  ['property index scan', 'reads what a property index names'],
  ['partition range scan', 'reads all entities of several partitions'],
  ['table scan', 'reads all entities'],
  ['nothing', 'reads nothing, because no entity can satisfy the filter'],
]);

/** The access class in plain words. */
function inWords(/** @type {Explained} */ { access, key_ranges: ranges }) {
  const keys = new Set((ranges ?? []).map((text) => rangeOf(text)?.[0]?.key));
  return access === 'row range scan' && keys.size > 1 ? `reads entities of ${number(keys.size)} partitions` : CLASSES.get(access) ?? '';
}

/** The rows that the last page of entities has read. */
let lately = { what: '', read: 0, returned: 0 };

/** The page of a filter, without its position. */
const pageOf = (/** @type {import('./route.js').Route} */ { account, table, filter }) => JSON.stringify([account, table, filter]);

/** Shows it, and returns null. Of a filter that cannot be executed it shows nothing, and returns the error. */
export async function explain(/** @type {HTMLElement} */ where, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite = false) {
  const { table } = scope.route;
  try {
    /** @type {Explained} */
    const found = await scope.call('explain_query', { table, filter: scope.route.filter || null });
    const isScan = ['table scan', 'partition range scan'].includes(found.access);
    const isSlow = isScan && Boolean(found.residual);
    const property = isSlow && canWrite ? await indexable(scope, found.residual ?? '') : null;
    const read = element('span', { class: 'reading' });
    const advice = element('span', { class: 'advice', hidden: true }, property && button(`Create an index on ${property}`, async () => {
      await scope.change('create_property_index', { table, property });
      say(`There is an index on ${property}.`);
      go({});
    }));
    where.replaceChildren(
      element('span', { class: isSlow ? 'badge slow' : 'badge' }, found.access),
      element('span', { class: 'plain' }, inWords(found)),
      found.residual ? element('span', { class: 'residual' }, 'tested on each row: ', code(found.residual)) : '',
      read, advice,
      element('details', {}, element('summary', {}, 'SQL and plan'),
        element('p', {}, 'Key ranges ', ...(found.key_ranges ?? []).slice(0, 100).map((range) => element('code', {}, range))),
        element('pre', { tabindex: '0' }, found.sql), element('pre', { tabindex: '0' }, found.plan)),
      line(found.key_ranges ?? []));
    where.dataset['page'] = pageOf(scope.route);
    showReading(where);
    return null;
  } catch (error) {
    if (!(error instanceof Problem)) {
      throw error;
    }
    where.replaceChildren();
    return error;
  }
}

/** Notes the rows that a page has read, and shows them beside how its filter is executed. */
export function noteReading(/** @type {HTMLElement} */ where, /** @type {import('./route.js').Route} */ route,
  /** @type {{entities: unknown[], read: number | null}} */ { entities, read }) {
  lately = { what: pageOf(route), read: read ?? 0, returned: entities.length };
  showReading(where);
}

/** @param {HTMLElement} where */
function showReading(where) {
  const [reading, advice] = [where.querySelector('.reading'), where.querySelector('.advice')];
  const isKnown = where.dataset['page'] === lately.what;
  // Rows that were read elsewhere, such as on another server, are not counted.
  const isCounted = isKnown && lately.read >= lately.returned && lately.read > 0;
  if (reading && isCounted) {
    const { read, returned } = lately;
    const waste = read > 2 * returned + WASTE;
    reading.replaceChildren(
      meter(returned / read), element('span', { class: waste ? 'waste' : '' }, `${number(read)} read, ${number(returned)} returned`));
    reading.setAttribute('title', 'Rows that PostgreSQL has read for this page, and entities of this page');
  }
  if (advice instanceof HTMLElement) {
    const isWorth = !isCounted || lately.read > 2 * lately.returned + WASTE;
    advice.hidden = advice.childElementCount === 0 || !isWorth;
  }
}

/** A filter in colours. */
function code(/** @type {string} */ filter) {
  const made = element('code', {});
  paint(made, filter, partsOfFilter(filter));
  return made;
}

/** A part of a whole, as a small bar. */
function meter(/** @type {number} */ part) {
  return element('meter', { min: 0, max: 1, value: part, 'aria-hidden': 'true' });
}

/** Returns the property of a condition that an index would serve and that has none; or null. */
async function indexable(/** @type {Scope} */ scope, /** @type {string} */ residual) {
  const names = conditions(residual).flatMap((condition) => {
    const [, name = ''] = /^([A-Za-z_]\w*) (?:eq|gt|ge|lt|le) /.exec(condition) ?? [];
    return name === '' || ['PartitionKey', 'RowKey', 'Timestamp'].includes(name) ? [] : [name];
  });
  if (names.length === 0) {
    return null;
  }
  /** @type {{property: string}[]} */
  const indexes = await scope.call('query_property_indexes', { table: scope.route.table });
  return indexes.some(({ property }) => names.includes(property)) ? null : names[0] ?? null;
}

/** Returns the conditions that all have to hold. */
export function conditions(/** @type {string} */ filter) {
  let [begin, depth] = [0, 0];
  const parts = [];
  for (const { kind, text, start, end } of tokens(filter)) {
    depth += Number(kind === '(') - Number(kind === ')');
    const isTop = depth === 0 && kind === 'word';
    if (isTop && text === 'or') {
      return [];
    }
    if (isTop && text === 'and') {
      parts.push(filter.slice(begin, start).trim());
      begin = end;
    }
  }
  return [...parts, filter.slice(begin).trim()];
}

/**
 * Null for an open end. Without a row it is the whole partition.
 *
 * @typedef {{key: string, row: string | null, isIn: boolean} | null} Bound
 */

/**
 * Reads a key range: `[('a','1'), ('a','5'))`, with `-∞` and `+∞` for open ends.
 *
 * @returns {[lower: Bound, upper: Bound] | null}
 */
export function rangeOf(/** @type {string} */ text) {
  const bound = /\('((?:[^']|'')*)',(?:'((?:[^']|'')*)'|[-+]∞)\)|[-+]∞/gs;
  const [lower, upper, ...more] = [...text.matchAll(bound)];
  if (!lower || !upper || more.length > 0) {
    return null;
  }
  const read = (/** @type {RegExpMatchArray} */ found, /** @type {boolean} */ isIn) => (found[1] === undefined ? null : {
    key: found[1].replaceAll("''", "'"), row: found[2]?.replaceAll("''", "'") ?? null, isIn,
  });
  return [read(lower, text.startsWith('[')), read(upper, text.endsWith(']'))];
}

/** A key as people write it. */
const named = (/** @type {NonNullable<Bound>} */ { key, row }) => (
  row === null ? key || '(empty)' : `${key || '(empty)'} / ${row || '(empty)'}`);

/** The line of all keys, from the first to the last one, with the ranges that are read. */
function line(/** @type {string[]} */ texts) {
  const ranges = texts.map(rangeOf).filter((range) => range !== null);
  if (texts.length === 0 || ranges.length !== texts.length) {
    return '';
  }
  const shown = ranges.slice(0, RANGES);
  const parts = shown.flatMap(([lower, upper], index) => {
    const isWithin = lower !== null && upper !== null && lower.key === upper.key;
    const isPoint = isWithin && lower.row !== null && upper.row === lower.row;
    const isPartition = isWithin && lower.row === null && upper.row === null;
    const texts = /** @type {string[]} */ ([]);
    if (isPoint || isPartition) {
      texts.push(named(lower));
    } else if (lower !== null || upper !== null) {
      // The end of a partition that the range begins in needs no second name.
      texts.push(lower ? named(lower) : '', isWithin ? upper?.row ?? '' : upper ? named(upper) : '');
    }
    const end = (/** @type {string} */ side, /** @type {Bound} */ bound) => (bound ? `${side}-${bound.isIn ? 'in' : 'out'}` : '');
    const kind = isPoint ? 'point' : `range ${end('from', lower)} ${end('to', upper)}`;
    return [
      (index > 0 || lower !== null) && element('span', { class: 'gap' }),
      element('span', { class: kind }, element('i', {}), element('span', { class: 'names' },
        ...texts.map((text) => element('bdi', { title: text }, text)))),
      index === shown.length - 1 && upper !== null && element('span', { class: 'gap' }),
    ];
  });
  const more = ranges.length - shown.length;
  return element('div', { class: 'keyline' },
    element('span', { class: 'end' }, 'first key'), element('span', { class: 'track' }, ...parts),
    element('span', { class: 'end' }, more > 0 ? `and ${number(more)} more ranges` : 'last key'));
}
