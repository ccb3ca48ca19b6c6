// The partitions of a table: a bar for each PartitionKey, with its entities, bytes and requests. Nothing reads the whole table: keys are
// found one look-up each, and a partition is read up to a page. What has more is estimated by PostgreSQL's statistics, if these name it.

import { Problem, isAbort } from './api.js';
import { button, bytes, element, number, scrolled, shown } from './dom.js';
import { bar, filterOf, hotOf, read } from './plots.js';
import { address } from './route.js';

/** @typedef {import('./api.js').Scope} Scope */
/**
 * @typedef {object} Partition
 * @property {string} key
 * @property {number | null} entities null while it is not known
 * @property {number | null} bytes
 * @property {number} requests
 * @property {'exact' | 'estimate' | 'least'} kind
 */

/** The most entities that are counted of a partition. */
const COUNTED = 1000;
const ORDERS = /** @type {const} */ ({ entities: 'Entities', bytes: 'Size', requests: 'Requests' });

/**
 * @param {HTMLElement} main
 * @param {Scope} scope
 */
export async function showPartitions(main, scope) {
  const { table, account } = scope.route;
  /** @type {Map<string, Partition>} */
  const all = new Map();
  let order = /** @type {keyof typeof ORDERS | 'key'} */ ('entities');
  let walked = 0;
  const words = element('p', { class: 'quiet', role: 'status' });
  const list = scrolled('Partitions');
  const pages = element('div', { class: 'tools' });
  main.append(words, list, pages);

  const requests = await requestsOf(scope);
  const add = (/** @type {string} */ key) => {
    /** @type {Partition} */
    const found = all.get(key) ?? { key, entities: null, bytes: null, requests: requests.get(key) ?? 0, kind: 'exact' };
    all.set(key, found);
    return found;
  };
  const draw = () => {
    const focused = document.activeElement?.getAttribute('data-order');
    list.replaceChildren(tableOf([...all.values()], order, table, account, (next) => {
      order = next;
      draw();
    }));
    /** @type {HTMLElement | null} */ (focused && list.querySelector(`[data-order="${focused}"]`))?.focus();
  };

  /** @param {string | null} after */
  const more = async (after) => {
    pages.replaceChildren();
    /** @type {{partitions: string[], more: boolean, common: [string, number][], estimate: number | null, bytes: number | null}} */
    const found = await scope.call('query_partitions', { table, after });
    walked += found.partitions.length;
    found.partitions.forEach(add);
    const size = found.estimate && found.bytes ? found.bytes / found.estimate : null;
    for (const [key, estimate] of found.common) {
      const partition = add(key);
      if (partition.entities === null) {
        Object.assign(partition, { entities: estimate, bytes: size && Math.round(estimate * size), kind: 'estimate' });
      }
    }
    requests.forEach((_, key) => add(key));
    const others = all.size - walked;
    words.textContent = all.size === 0 ? 'The table has no entities.'
      : `${found.more ? `The first ${number(walked)}` : number(walked)} partition${walked === 1 ? '' : 's'} in the order of their keys${
        others > 0 ? `, and ${number(others)} large or much requested ones behind them` : ''}. `
        + `A number with ≈ is an estimate of PostgreSQL’s statistics. The others are counted, up to ${number(COUNTED)} entities.`;
    const last = found.partitions.at(-1);
    if (found.more && last !== undefined) {
      pages.replaceChildren(button('More partitions', () => more(last)));
    }
    draw();
    await measure([...all.values()].filter(({ entities, kind }) => entities === null || kind === 'estimate'));
  };

  /** @param {Partition[]} partitions */
  const measure = async (partitions) => {
    let drawn = performance.now();
    for (const partition of partitions) {
      const { entities, bytes: size, isAll } = await scope.call('measure_partition', { table, partitionKey: partition.key });
      // A sample says little of a partition that is soon counted.
      if (isAll || (partition.entities ?? 0) <= COUNTED) {
        Object.assign(partition, { entities, bytes: size, kind: isAll ? 'exact' : 'least' });
      }
      if (entities === 0) {
        // The statistics, or the requests, are of one that is gone.
        all.delete(partition.key);
      }
      // A page is drawn some times a second, however many partitions there are.
      if (performance.now() - drawn > 250) {
        drawn = performance.now();
        draw();
      }
    }
    draw();
  };

  try {
    await more(null);
  } catch (error) {
    if (isAbort(error) || all.size === 0) {
      throw error;
    }
    draw();
    words.after(shown(error));
  }
}

/**
 * The recent requests of the most requested partitions of this table, if the gateway tells them.
 *
 * @param {Scope} scope
 * @returns {Promise<Map<string, number>>}
 */
async function requestsOf(scope) {
  const { account, table } = scope.route;
  try {
    const hot = hotOf(read(await scope.metrics()));
    return new Map(hot.filter((one) => one.account === account && one.table.toLowerCase() === table.toLowerCase())
      .map(({ partition, value }) => [partition, value]));
  } catch (error) {
    if (!(error instanceof Problem)) {
      throw error;
    }
    return new Map();
  }
}

/**
 * @param {Partition[]} partitions
 * @param {keyof typeof ORDERS | 'key'} order
 * @param {string} table
 * @param {string} account
 * @param {(order: keyof typeof ORDERS | 'key') => void} onOrder
 */
function tableOf(partitions, order, table, account, onOrder) {
  const byKey = (/** @type {Partition} */ a, /** @type {Partition} */ b) => (a.key < b.key ? -1 : 1);
  const sorted = [...partitions].sort(order === 'key' ? byKey : (a, b) => (b[order] ?? -1) - (a[order] ?? -1) || byKey(a, b));
  const measure = order === 'key' ? 'entities' : order;
  const most = Math.max(1, ...partitions.map((partition) => partition[measure] ?? 0));
  const head = (/** @type {keyof typeof ORDERS | 'key'} */ name, /** @type {string} */ text) => {
    const sort = element('button', { type: 'button', class: 'link', 'data-order': name }, text);
    sort.addEventListener('click', () => onOrder(name));
    const direction = name === 'key' ? 'ascending' : 'descending';
    return element('th', { scope: 'col', 'aria-sort': order === name ? direction : null, class: name }, sort);
  };
  const amount = (/** @type {Partition} */ { kind }, /** @type {string} */ text) => `${kind === 'estimate' ? '≈ ' : ''}${text}${
    kind === 'least' ? '+' : ''}`;
  return element('table', { class: 'partitions' },
    element('thead', {}, element('tr', {}, head('key', 'PartitionKey'), element('td', {}),
      ...Object.entries(ORDERS).map(([name, text]) => head(/** @type {keyof typeof ORDERS} */ (name), text)))),
    element('tbody', {}, ...sorted.map((partition) => element('tr', {},
      element('th', { scope: 'row' }, element('a', {
        href: address({ account, table, view: 'entities', filter: filterOf(partition.key), select: '' }), title: partition.key,
      }, partition.key === '' ? element('span', { class: 'empty' }, '(empty)') : element('bdi', {}, partition.key))),
      element('td', { class: 'of-bar' }, bar((partition[measure] ?? 0) / most, partition.kind)),
      element('td', { class: 'entities' }, partition.entities === null ? '…' : amount(partition, number(partition.entities))),
      element('td', { class: 'bytes' }, partition.bytes === null ? '' : amount(partition, bytes(partition.bytes))),
      element('td', { class: 'requests' }, partition.requests ? number(partition.requests) : '')))));
}
