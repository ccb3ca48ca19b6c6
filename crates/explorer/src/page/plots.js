// The load of the gateway, from its metrics: rate, errors, latencies, and the most requested partitions.

import { isAbort } from './api.js';
import { element, number, scrolled, shown, svg, tableOf } from './dom.js';
import { recall, remember } from './memory.js';
import { address } from './route.js';

/** How often the metrics are read, in milliseconds. */
const INTERVAL = 2000;
const MINUTE = 60_000;
/** The times that a plot can show, in minutes. The longest is kept. */
const SPANS = /** @type {const} */ ([2, 10, 60]);
/** Between two readings of this distance nobody has looked, so no line is drawn. */
const GAP = 3 * INTERVAL;

/** @typedef {import('./api.js').Scope} Scope */
/** @typedef {{name: string, labels: Record<string, string>, value: number}} Sample */
/** @typedef {{time: number, requests: number, errors: number, buckets: Map<number, number>, tables: Map<string, number>}} Reading */
/** @typedef {{time: number, value: number | null}} Point */

/**
 * What was read lately, whichever view has asked for it.
 *
 * @type {Reading[]}
 */
const readings = [];

/** The time that plots show, in minutes. */
const span = () => SPANS.find((one) => one === recall('span')) ?? 2;

/** Where the pointer is in a plot: plots are drawn again below it. */
let pointer = /** @type {PointerEvent | null} */ (null);

/**
 * Reads the metrics again and again, as long as the view is shown.
 *
 * @param {Scope} scope
 * @param {(samples: Sample[]) => void} onReading
 * @param {(error: unknown) => void} onProblem
 */
export async function watch(scope, onReading, onProblem) {
  while (!scope.signal.aborted) {
    try {
      const samples = read(await scope.metrics());
      const time = Date.now();
      readings.push({ time, ...totals(samples) });
      readings.splice(0, readings.findIndex((reading) => time - reading.time <= SPANS[2] * MINUTE));
      onReading(samples);
    } catch (error) {
      if (!isAbort(error)) {
        onProblem(error);
      }
    }
    await new Promise((resolve) => {
      setTimeout(resolve, INTERVAL);
    });
  }
}

/**
 * @param {HTMLElement} main
 * @param {Scope} scope
 */
export async function showLoad(main, scope) {
  const plots = element('div', { class: 'plots' });
  const operations = scrolled('Operations');
  const partitions = element('div', {});
  const choices = SPANS.map((minutes) => element('button', {
    type: 'button', 'aria-pressed': String(minutes === span()), onclick: () => {
      remember('span', minutes);
      choices.forEach((choice, index) => choice.setAttribute('aria-pressed', String(SPANS[index] === minutes)));
      drawLoad(plots);
    } }, `${minutes} min`));
  main.append(element('div', { class: 'segments', role: 'group', 'aria-label': 'Time' }, ...choices), plots,
    element('h2', {}, 'Operations since the start'), operations,
    element('h2', {}, 'Most requested partitions'), partitions);
  await watch(scope, (samples) => {
    drawLoad(plots);
    const rows = byOperation(samples);
    operations.replaceChildren(rows.length === 0 ? element('p', { class: 'quiet' }, 'No requests yet.')
      : tableOf(['Operation', 'Requests', 'Errors', 'p50', 'p99'], rows));
    partitions.replaceChildren(hotPartitions(samples, null));
  }, (error) => plots.replaceChildren(shown(error)));
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

/** The upper end of a bucket of a histogram, in seconds. */
const endOf = (/** @type {Sample} */ { labels }) => Number((labels['le'] ?? '').replace('+Inf', 'Infinity'));

/** @param {Sample[]} samples */
function totals(samples) {
  let requests = 0;
  let errors = 0;
  /** @type {Map<number, number>} */
  const buckets = new Map();
  for (const sample of samples) {
    if (sample.name === 'table_service_requests_total') {
      requests += sample.value;
      errors += sample.labels['code'] ? sample.value : 0;
    } else if (sample.name === 'table_service_request_duration_seconds_bucket') {
      const end = endOf(sample);
      buckets.set(end, (buckets.get(end) ?? 0) + sample.value);
    }
  }
  /** @type {Map<string, number>} */
  const tables = new Map();
  for (const { account, table, value } of hotOf(samples)) {
    const key = keyOf(account, table);
    tables.set(key, (tables.get(key) ?? 0) + value);
  }
  return { requests, errors, buckets, tables };
}

const keyOf = (/** @type {string} */ account, /** @type {string} */ table) => `${account} ${table.toLowerCase()}`;

/**
 * The requests a second of a table, of which the gateway counts those of the most requested partitions: now, and as a curve. Its counts
 * have those of about the last 90 seconds.
 *
 * @param {string} account
 * @param {string} table
 */
export function requestsOf(account, table) {
  const end = readings.at(-1)?.time ?? 0;
  const lately = readings.filter(({ time }) => end - time <= SPANS[0] * MINUTE);
  const counts = lately.map(({ tables }) => tables.get(keyOf(account, table)) ?? 0);
  const most = Math.max(1, ...counts);
  const points = counts.map((count, index) => `${(100 * index) / Math.max(1, counts.length - 1)},${22 - (20 * count) / most}`);
  const view = { class: 'curve', viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' };
  const curve = counts.length > 1 && svg('svg', view, svg('polyline', { points: points.join(' ') }));
  return { rate: (counts.at(-1) ?? 0) / 90, curve };
}

/** Draws requests a second, and the latency that 99 of 100 requests do not exceed. */
export function drawLoad(/** @type {HTMLElement} */ where) {
  const end = readings.at(-1)?.time ?? Date.now();
  const minutes = span();
  const steps = readings.slice(1).map((now, index) => {
    const before = /** @type {Reading} */ (readings[index]);
    const seconds = (now.time - before.time) / 1000;
    if (now.time - before.time > GAP) {
      return { time: now.time, requests: null, errors: null, p99: null };
    }
    const rate = (/** @type {number} */ end, /** @type {number} */ begin) => Math.max(end - begin, 0) / seconds;
    /** @type {[number, number][]} */
    const buckets = [...now.buckets].map(([end, count]) => [end, count - (before.buckets.get(end) ?? 0)]);
    const latency = quantileEnd(buckets, 0.99);
    return {
      time: now.time, requests: rate(now.requests, before.requests), errors: rate(now.errors, before.errors),
      p99: latency === null ? null : 1000 * Math.min(latency, 30),
    };
  }).filter(({ time }) => end - time <= minutes * MINUTE);
  const line = (/** @type {'requests' | 'errors' | 'p99'} */ series) => steps.map((step) => ({ time: step.time, value: step[series] }));
  const last = steps.at(-1);
  const isQuiet = steps.every(({ requests }) => !requests);
  const rate = (/** @type {number} */ value) => (value > 0 && value < 10 ? value.toFixed(1) : number(Math.round(value)));
  const now = last?.requests ?? null;
  const words = now === null ? 'The next reading comes in 2 seconds' : isQuiet ? `No requests in the last ${minutes} minutes`
    : `${rate(now)} requests and ${rate(last?.errors ?? 0)} errors a second now`;
  const p99 = last?.p99 ?? null;
  const slow = p99 === null ? 'No requests just now' : `99 of 100 requests took at most ${duration(p99)}`;
  const width = Math.max(240, (where.clientWidth - 16) / (where.clientWidth > 720 ? 2 : 1) - 34);
  where.replaceChildren(
    figure('Requests a second', now === null || isQuiet ? '' : rate(now), words, isQuiet ? words : '',
      chart(width, isQuiet ? [] : [['requests', line('requests')], ['errors', line('errors')]], 1, number),
      element('p', { class: 'legend' },
        element('span', { class: 'requests' }, 'requests'), element('span', { class: 'errors' }, 'errors'))),
    figure('Latency, p99', p99 === null ? '' : `≤ ${duration(p99)}`, slow, isQuiet ? words : '',
      chart(width, [['p99', line('p99')]], 10, duration),
      element('p', { class: 'legend' }, element('span', { class: 'p99' }, '99 of 100 requests took at most so long'))));
  if (pointer) {
    const { clientX, clientY } = pointer;
    const below = document.elementFromPoint(clientX, clientY)?.closest('.picture svg');
    below?.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY }));
  }
}

/**
 * @param {string} title
 * @param {string} value the value now
 * @param {string} words what the picture says
 * @param {string} empty what stands in a picture without lines
 * @param {SVGElement & {}} picture
 * @param {HTMLElement} legend
 */
function figure(title, value, words, empty, picture, legend) {
  picture.setAttribute('aria-label', words);
  return element('figure', { class: 'card plot' },
    element('figcaption', {}, element('h2', {}, title), element('strong', { class: 'figure' }, value)),
    element('div', { class: 'picture' }, picture, empty && element('p', { class: 'quiet' }, empty)), legend,
    element('p', { class: 'sr' }, words, '.'));
}

/** A number of milliseconds with its unit. */
function duration(/** @type {number} */ milliseconds) {
  return milliseconds >= 1000 ? `${Number((milliseconds / 1000).toPrecision(3))} s` : `${Number(milliseconds.toPrecision(3))} ms`;
}

/** The least round number of 1, 2 or 5 that is at least so much. */
function round(/** @type {number} */ value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((digit) => digit * power >= value * 0.999) ?? 10) * power;
}

/**
 * Draws lines over the time that plots show, with axes, and the values under the pointer.
 *
 * @param {number} width
 * @param {[name: string, points: Point[]][]} series
 * @param {number} least the least upper end of the axis
 * @param {(tick: number) => string} unit
 */
function chart(width, series, least, unit) {
  const [height, left, right, top, bottom] = [148, 52, 8, 10, 22];
  const most = round(Math.max(least, ...series.flatMap(([, points]) => points.map(({ value }) => value ?? 0))));
  const end = readings.at(-1)?.time ?? Date.now();
  const minutes = span();
  const x = (/** @type {number} */ time) => left + (1 - (end - time) / (minutes * MINUTE)) * (width - left - right);
  const y = (/** @type {number} */ value) => top + (1 - value / most) * (height - top - bottom);
  const at = (/** @type {Point} */ { time, value }) => `${x(time).toFixed(1)} ${y(value ?? 0).toFixed(1)}`;
  const grid = [0, 0.5, 1].map((part) => svg('g', { class: 'tick' },
    svg('path', { d: `M${left} ${y(part * most)}H${width - right}` }),
    svg('text', { x: left - 8, y: y(part * most) + 4, 'text-anchor': 'end' }, unit(part * most))));
  const times = [[minutes, 'start'], [minutes / 2, 'middle'], [0, 'end']].map(([age, anchor]) => svg('text', {
    x: x(end - Number(age) * MINUTE), y: height - 4, 'text-anchor': String(anchor),
  }, age === 0 ? 'now' : `−${age} min`));
  const lines = series.flatMap(([name, points]) => runs(points).flatMap((run) => {
    const first = /** @type {Point} */ (run[0]);
    const final = /** @type {Point} */ (run.at(-1));
    const area = `M${x(first.time)} ${y(0)}L${run.map(at).join('L')}L${x(final.time)} ${y(0)}Z`;
    return [
      name === 'errors' ? null : svg('path', { class: `area ${name}`, d: area }),
      run.length > 1 ? svg('polyline', { class: name, points: run.map((point) => at(point).replace(' ', ',')).join(' ') })
        : svg('circle', { class: name, cx: x(first.time), cy: y(first.value ?? 0), r: 2 }),
    ];
  }));
  const rule = svg('path', { class: 'rule' });
  const values = svg('text', { class: 'values', y: top + 8 });
  const made = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img' }, ...grid, ...times, ...lines, rule, values);
  const point = (/** @type {PointerEvent} */ event) => {
    pointer = event;
    const box = made.getBoundingClientRect();
    const wanted = (event.clientX - box.left) * (width / box.width);
    const points = series[0]?.[1].filter(({ value }) => value !== null) ?? [];
    const [nearest] = points.sort((a, b) => Math.abs(x(a.time) - wanted) - Math.abs(x(b.time) - wanted));
    if (nearest) {
      const place = x(nearest.time);
      const isLeft = place < width / 2;
      rule.setAttribute('d', `M${place} ${top}V${y(0)}`);
      values.setAttribute('x', String(place + (isLeft ? 6 : -6)));
      values.setAttribute('text-anchor', isLeft ? 'start' : 'end');
      values.textContent = [new Date(nearest.time).toLocaleTimeString(), ...series.map(([name, points]) => {
        const found = points.find(({ time }) => time === nearest.time)?.value ?? 0;
        return `${name} ${unit(found < 10 ? Number(found.toFixed(1)) : Math.round(found))}`;
      })].join(' · ');
    }
  };
  made.addEventListener('pointermove', (event) => point(/** @type {PointerEvent} */ (event)));
  made.addEventListener('pointerleave', () => {
    pointer = null;
    rule.removeAttribute('d');
    values.textContent = '';
  });
  return made;
}

/** The parts of a line without gaps. */
function runs(/** @type {Point[]} */ points) {
  /** @type {Point[][]} */
  const all = [[]];
  for (const point of points) {
    if (point.value === null) {
      all.push([]);
    } else {
      all.at(-1)?.push(point);
    }
  }
  return all.filter((run) => run.length > 0);
}

/** @param {Sample[]} samples */
function byOperation(samples) {
  /** @type {Map<string, {requests: number, errors: number, buckets: [number, number][]}>} */
  const all = new Map();
  for (const sample of samples) {
    const { name, labels, value } = sample;
    const operation = labels['operation'];
    if (operation) {
      const found = all.get(operation) ?? { requests: 0, errors: 0, buckets: [] };
      all.set(operation, found);
      if (name === 'table_service_requests_total') {
        found.requests += value;
        found.errors += labels['code'] ? value : 0;
      } else if (name === 'table_service_request_duration_seconds_bucket') {
        found.buckets.push([endOf(sample), value]);
      }
    }
  }
  return [...all].sort((a, b) => b[1].requests - a[1].requests).map(([operation, { requests, errors, buckets }]) => [
    operation, number(requests), number(errors), quantile(buckets, 0.5), quantile(buckets, 0.99)]);
}

/**
 * Returns the upper end of the bucket that has a quantile, or null if there are no requests.
 *
 * @param {[number, number][]} buckets upper ends in seconds, and how many requests took at most so long
 * @param {number} part
 */
function quantileEnd(buckets, part) {
  const sorted = [...buckets].sort((a, b) => a[0] - b[0]);
  const rank = (sorted.at(-1)?.[1] ?? 0) * part;
  return sorted.find(([, count]) => count >= rank && count > 0)?.[0] ?? null;
}

/**
 * @param {[number, number][]} buckets
 * @param {number} part
 */
export function quantile(buckets, part) {
  const end = quantileEnd(buckets, part);
  if (end === null) {
    return '';
  }
  return end === Infinity ? '> 30 s' : `≤ ${end >= 1 ? `${end} s` : `${end * 1000} ms`}`;
}

/**
 * The recent requests of the most requested partitions, which are all that the gateway knows by partition.
 *
 * @param {Sample[]} samples
 */
export function hotOf(samples) {
  return samples.filter(({ name }) => name === 'table_service_hot_partition_requests').sort((a, b) => b.value - a.value)
    .map(({ labels, value }) => ({
      account: labels['account'] ?? '', table: labels['table'] ?? '', partition: labels['partition'] ?? '', value,
    }));
}

/** A filter for the entities of a partition. */
export const filterOf = (/** @type {string} */ partition) => `PartitionKey eq '${partition.replaceAll("'", "''")}'`;

/**
 * A bar that is so long a part of its place.
 *
 * @param {number} part
 * @param {string} [name]
 */
export function bar(part, name = '') {
  return svg('svg', { viewBox: '0 0 100 8', class: `bar ${name}`, 'aria-hidden': 'true', preserveAspectRatio: 'none' },
    svg('rect', { width: 100 * Math.min(Math.max(part, 0), 1), height: 8 }));
}

/**
 * @param {Sample[]} samples
 * @param {string | null} account all if it is null
 */
export function hotPartitions(samples, account) {
  const hot = hotOf(samples).filter((one) => account === null || one.account === account);
  if (hot.length === 0) {
    return element('p', { class: 'quiet' }, 'No requests yet.');
  }
  const most = hot[0]?.value ?? 1;
  return element('ol', { class: 'bars' }, ...hot.map(({ account, table, partition, value }) => element('li', {},
    element('a', { href: address({ account, table, view: 'entities', filter: filterOf(partition), select: '' }), title: partition },
      element('span', { class: 'of' }, table), element('bdi', {}, partition === '' ? '(empty)' : partition)),
    bar(value / most), element('span', { class: 'amount' }, number(value)))));
}
