// The partitions of a table: a bar for each PartitionKey, with its entities, bytes and requests. The whole table is
// never read: each key takes a look-up, and a partition is read up to a page. Statistics estimate larger ones.

import { Problem, isAbort } from './api.js';
import { button, bytes, element, number, shown, sortedTable } from './dom.js';
import { bar, filterOf, hotOf, read } from './plots.js';
import { address } from './route.js';

/** @import { Scope } from './api.js' */
/** @typedef {Record<'entities' | 'bytes', number | null>} Size null while it is not known */
/** @typedef {Size & {key: string, requests: number, kind: 'exact' | 'estimate' | 'least'}} Partition */

/** The most entities that are counted of a partition. */
const COUNTED = 1000;

export async function showPartitions(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope) {
  const partitions = new Partitions(scope, await requestsOf(scope));
  main.append(partitions.words, partitions.list.element, partitions.pages);
  try {
    await partitions.more(null);
  } catch (error) {
    if (isAbort(error) || partitions.all.size === 0) {
      throw error;
    }
    partitions.draw();
    partitions.words.after(shown(error));
  }
}

class Partitions {
  /**
   * @param {Scope} scope
   * @param {Map<string, number>} requests by PartitionKey
   */
  constructor(scope, requests) {
    this.scope = scope;
    this.requests = requests;
    this.all = /** @type {Map<string, Partition>} */ (new Map());
    this.walked = 0;
    this.words = element('p', { class: 'quiet', role: 'status' });
    this.pages = element('div', { class: 'tools' });
    const columns = {
      key: { text: 'PartitionKey', name: (/** @type {Partition} */ { key }) => key },
      'of-bar': { text: '' },
      entities: { text: 'Entities', size: (/** @type {Partition} */ { entities }) => entities ?? -1 },
      bytes: { text: 'Size', size: (/** @type {Partition} */ { bytes }) => bytes ?? -1 },
      requests: { text: 'Requests', size: (/** @type {Partition} */ { requests }) => requests },
    };
    this.list = sortedTable('Partitions', columns, 'entities', (partition, order) => this.row(partition, order));
  }

  draw() {
    this.list.show([...this.all.values()].sort((a, b) => (a.key < b.key ? -1 : 1)));
  }

  add(/** @type {string} */ key) {
    /** @type {Partition} */
    const found = this.all.get(key) ?? { key, entities: null, bytes: null, requests: this.requests.get(key) ?? 0, kind: 'exact' };
    this.all.set(key, found);
    return found;
  }

  /** Reads more partitions, behind a key. */
  async more(/** @type {string | null} */ after) {
    const { all, pages, scope } = this;
    pages.replaceChildren();
    /** @type {{partitions: string[], more: boolean, common: [string, number][], estimate: number | null, bytes: number | null}} */
    const found = await scope.call('query_partitions', { table: scope.route.table, after });
    this.walked += found.partitions.length;
    found.partitions.forEach((key) => this.add(key));
    const size = found.estimate && found.bytes ? found.bytes / found.estimate : null;
    for (const [key, estimate] of found.common) {
      const partition = this.add(key);
      if (partition.entities === null) {
        Object.assign(partition, { entities: estimate, bytes: size && Math.round(estimate * size), kind: 'estimate' });
      }
    }
    this.requests.forEach((_, key) => this.add(key));
    const [walked, others] = [this.walked, all.size - this.walked];
    this.words.textContent = all.size === 0 ? 'The table has no entities.'
      : `${found.more ? `The first ${number(walked)}` : number(walked)} partition${walked === 1 ? '' : 's'} in the order of their keys${
        others > 0 ? `, and ${number(others)} large or much requested ones behind them` : ''}. `
        + `A number with ≈ is an estimate of PostgreSQL’s statistics. The others are counted, up to ${number(COUNTED)} entities.`;
    const last = found.partitions.at(-1);
    if (found.more && last !== undefined) {
      pages.replaceChildren(button('More partitions', () => this.more(last)));
    }
    this.draw();
    await this.measure([...all.values()].filter(({ entities, kind }) => entities === null || kind === 'estimate'));
  }

  async measure(/** @type {Partition[]} */ partitions) {
    const { table } = this.scope.route;
    let drawn = performance.now();
    for (const partition of partitions) {
      const { entities, bytes: size, isAll } = await this.scope.call('measure_partition', { table, partitionKey: partition.key });
      // A sample says little of a partition that is soon counted.
      if (isAll || (partition.entities ?? 0) <= COUNTED) {
        Object.assign(partition, { entities, bytes: size, kind: isAll ? 'exact' : 'least' });
      }
      if (entities === 0) {
        // The statistics, or the requests, are of one that is gone.
        this.all.delete(partition.key);
      }
      // A page is drawn some times a second, however many partitions there are.
      if (performance.now() - drawn > 250) {
        drawn = performance.now();
        this.draw();
      }
    }
    this.draw();
  }

  row(/** @type {Partition} */ partition, /** @type {string} */ order) {
    const { table, account } = this.scope.route;
    const { key, kind } = partition;
    const measure = order === 'bytes' || order === 'requests' ? order : 'entities';
    const most = Math.max(1, ...[...this.all.values()].map((one) => one[measure] ?? 0));
    const amount = (/** @type {string} */ text) => `${kind === 'estimate' ? '≈ ' : ''}${text}${kind === 'least' ? '+' : ''}`;
    return element('tr', {},
      element('th', { scope: 'row' }, element('a', {
        href: address({ account, table, view: 'entities', filter: filterOf(key), select: '' }), title: key,
      }, key === '' ? element('span', { class: 'empty' }, '(empty)') : element('bdi', {}, key))),
      element('td', { class: 'of-bar' }, bar((partition[measure] ?? 0) / most, kind)),
      element('td', { class: 'entities' }, partition.entities === null ? '…' : amount(number(partition.entities))),
      element('td', { class: 'bytes' }, partition.bytes === null ? '' : amount(bytes(partition.bytes))),
      element('td', { class: 'requests' }, partition.requests ? number(partition.requests) : ''));
  }
}

/** The recent requests of the most requested partitions of this table, if the gateway tells them. */
async function requestsOf(/** @type {Scope} */ scope) {
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
