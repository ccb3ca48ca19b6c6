// The load of the gateway, from its metrics: rate, errors, latencies, and the most requested partitions.

import { isAbort } from './api.js';
import { element, number, shown, svg } from './dom.js';

/** How often the metrics are read, and how many of the last readings are shown. */
const INTERVAL = 2000;
const READINGS = 60;

/** @typedef {{name: string, labels: Record<string, string>, value: number}} Sample */
/** @typedef {{time: number, requests: number, errors: number}} Point */

/**
 * @param {HTMLElement} main
 * @param {import('./api.js').Scope} scope
 */
export async function showLoad(main, scope) {
  const plot = element('div', { class: 'plot' });
  const operations = element('div', { class: 'list', tabindex: '0', role: 'region', 'aria-label': 'Operations' });
  const partitions = element('div', { class: 'list', tabindex: '0', role: 'region', 'aria-label': 'Partitions' });
  main.append(element('h2', {}, 'Requests a second'), plot,
    element('h2', {}, 'Operations since the start'), operations,
    element('h2', {}, 'Most requested partitions'), partitions);
  /** @type {Point[]} */
  const points = [];
  while (!scope.signal.aborted) {
    try {
      const samples = read(await scope.metrics());
      points.push({ time: performance.now(), ...totals(samples) });
      points.splice(0, points.length - READINGS);
      plot.replaceChildren(...drawRates(points));
      operations.replaceChildren(tableOf(['Operation', 'Requests', 'Errors', 'p50', 'p99'], byOperation(samples)));
      partitions.replaceChildren(drawPartitions(samples));
    } catch (error) {
      if (!isAbort(error)) {
        plot.replaceChildren(shown(error));
      }
    }
    await new Promise((resolve) => {
      setTimeout(resolve, INTERVAL);
    });
  }
}

/**
 * Reads the text form of OpenMetrics.
 *
 * @param {string} text
 * @returns {Sample[]}
 */
export function read(text) {
  const samples = [];
  for (const line of text.split('\n')) {
    const parts = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/s.exec(line);
    if (parts) {
      /** @type {Record<string, string>} */
      const labels = {};
      for (const [, name, value] of (parts[2] ?? '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/gs)) {
        labels[name ?? ''] = (value ?? '').replace(/\\(.)/gs, (_, c) => (c === 'n' ? '\n' : c));
      }
      samples.push({ name: parts[1] ?? '', labels, value: Number(parts[3]) });
    }
  }
  return samples;
}

/** @param {Sample[]} samples */
function totals(samples) {
  let requests = 0;
  let errors = 0;
  for (const { name, labels, value } of samples) {
    if (name === 'table_service_requests_total') {
      requests += value;
      errors += labels['code'] ? value : 0;
    }
  }
  return { requests, errors };
}

/** @param {Point[]} points */
function drawRates(points) {
  const rates = points.slice(1).map((point, index) => {
    const before = /** @type {Point} */ (points[index]);
    const seconds = (point.time - before.time) / 1000;
    const rate = (/** @type {number} */ now, /** @type {number} */ then) => Math.max(now - then, 0) / seconds;
    return { requests: rate(point.requests, before.requests), errors: rate(point.errors, before.errors) };
  });
  const [width, height] = [600, 120];
  const most = Math.max(1, ...rates.map(({ requests }) => requests));
  const line = (/** @type {'requests' | 'errors'} */ series) => rates
    .map((rate, index) => `${(index * width) / (READINGS - 2)},${height - 2 - (rate[series] / most) * (height - 8)}`).join(' ');
  const last = rates.at(-1);
  const words = last ? `${number(Math.round(last.requests))} requests and ${number(Math.round(last.errors))} errors a second now; `
    + `the most was ${number(Math.round(most))}` : 'The first reading. The next one comes in 2 seconds.';
  return [
    svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words },
      svg('polyline', { points: line('requests'), class: 'requests' }),
      svg('polyline', { points: line('errors'), class: 'errors' })),
    element('p', { class: 'quiet' }, words, '. ', element('span', { class: 'requests' }, '— requests '),
      element('span', { class: 'errors' }, '--- errors')),
  ];
}

/** @param {Sample[]} samples */
function byOperation(samples) {
  /** @type {Map<string, {requests: number, errors: number, buckets: [number, number][]}>} */
  const all = new Map();
  for (const { name, labels, value } of samples) {
    const operation = labels['operation'];
    if (operation) {
      const found = all.get(operation) ?? { requests: 0, errors: 0, buckets: [] };
      all.set(operation, found);
      if (name === 'table_service_requests_total') {
        found.requests += value;
        found.errors += labels['code'] ? value : 0;
      } else if (name === 'table_service_request_duration_seconds_bucket') {
        found.buckets.push([Number((labels['le'] ?? '').replace('+Inf', 'Infinity')), value]);
      }
    }
  }
  return [...all].sort((a, b) => b[1].requests - a[1].requests).map(([operation, { requests, errors, buckets }]) => [
    operation, number(requests), number(errors), quantile(buckets, 0.5), quantile(buckets, 0.99)]);
}

/**
 * @param {[number, number][]} buckets upper ends in seconds, and how many requests took at most so long
 * @param {number} part
 */
export function quantile(buckets, part) {
  const sorted = [...buckets].sort((a, b) => a[0] - b[0]);
  const rank = (sorted.at(-1)?.[1] ?? 0) * part;
  const end = sorted.find(([, count]) => count >= rank && count > 0)?.[0];
  if (end === undefined) {
    return '';
  }
  return end === Infinity ? '> 30 s' : `≤ ${end >= 1 ? `${end} s` : `${end * 1000} ms`}`;
}

/** @param {Sample[]} samples */
function drawPartitions(samples) {
  const hot = samples.filter(({ name }) => name === 'table_service_hot_partition_requests');
  if (hot.length === 0) {
    return element('p', { class: 'quiet' }, 'No requests yet.');
  }
  hot.sort((a, b) => b.value - a.value);
  const most = hot[0]?.value ?? 1;
  return tableOf(['Table', 'PartitionKey', 'Recent requests', ''], hot.map(({ labels, value }) => [
    labels['table'] ?? '', labels['partition'] ?? '', number(value),
    svg('svg', { viewBox: '0 0 100 10', class: 'bar', 'aria-hidden': 'true', preserveAspectRatio: 'none' },
      svg('rect', { width: (100 * value) / most, height: 10 }))]));
}

/**
 * @param {string[]} head
 * @param {(string | Node)[][]} rows
 */
function tableOf(head, rows) {
  return element('table', {},
    element('thead', {}, element('tr', {}, ...head.map((text) => element(text ? 'th' : 'td', text ? { scope: 'col' } : {}, text)))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((value) => element('td', {},
      typeof value === 'string' ? element('bdi', {}, value) : value))))));
}
