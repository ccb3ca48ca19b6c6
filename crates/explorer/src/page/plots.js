// The load of the gateway, from its metrics: rate, errors, latencies, and the most requested partitions.

import { isAbort, pause } from './api.js';
import { element, number, scrolled, segments, shown, svg, tableOf } from './dom.js';
import { recall, remember } from './memory.js';
import { address } from './route.js';

/** How often the metrics are read, in milliseconds. */
const INTERVAL = 2000;
const MINUTE = 60_000;
/** The times that a plot can show, in minutes. The longest is kept. */
const SPANS = /** @type {const} */ ([2, 10, 60]);
/** Between readings so far apart no view has read, so no line is drawn. */
const GAP = 3 * INTERVAL;
/** The upper end of the last bucket of latencies, in seconds. */
const LONGEST = 30;

/** @import { Scope } from './api.js' */
/** @typedef {{name: string, labels: Record<string, string>, value: number}} Sample */
/** @typedef {{time: number, requests: number, errors: number, buckets: Map<number, number>, tables: Map<string, number>}} Reading */
/** @typedef {{time: number, value: number | null}} Point */

/** The latest readings, of all views. */
const readings = /** @type {Reading[]} */ ([]);

/** The time that plots show, in minutes. */
const span = () => SPANS.find((one) => one === recall('span')) ?? 2;

/** Where the pointer is in a plot: plots are drawn again below it. */
let pointer = /** @type {PointerEvent | null} */ (null);

/** Reads the metrics again and again, as long as the view is shown. */
export async function watch(/** @type {Scope} */ scope, /** @type {(samples: Sample[]) => void} */ onReading,
  /** @type {(error: unknown) => void} */ onProblem) {
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
    await pause(INTERVAL);
  }
}

export async function showLoad(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope) {
  const plots = element('div', { class: 'plots' });
  const operations = scrolled('Operations');
  const partitions = element('div', {});
  const times = segments('Time', SPANS.map((minutes) => `${minutes} min`), `${span()} min`, (name) => {
    remember('span', Number.parseInt(name, 10));
    drawLoad(plots);
  });
  main.append(times, plots,
    element('h2', {}, 'Operations since the start'), operations,
    element('h2', {}, 'Most requested partitions'), partitions);
  await watch(scope, (samples) => {
    drawLoad(plots);
    const rows = byOperation(samples);
    operations.replaceChildren(rows.length === 0 ? element('p', { class: 'quiet' }, 'No requests yet.')
      : tableOf(['Operation', '#Requests', '#Errors', '#p50', '#p99'], rows));
    partitions.replaceChildren(hotPartitions(samples, null));
  }, (error) => plots.replaceChildren(shown(error)));
}

/** Reads the text form of OpenMetrics. */
export function read(/** @type {string} */ text) {
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
  const buckets = /** @type {Map<number, number>} */ (new Map());
  const tables = /** @type {Map<string, number>} */ (new Map());
  for (const sample of samples) {
    if (sample.name === 'table_service_requests_total') {
      requests += sample.value;
      errors += sample.labels['code'] ? sample.value : 0;
    } else if (sample.name === 'table_service_request_duration_seconds_bucket') {
      const end = endOf(sample);
      buckets.set(end, (buckets.get(end) ?? 0) + sample.value);
    } else if (sample.name === 'table_service_table_requests_total') {
      const key = keyOf(sample.labels['account'] ?? '', sample.labels['table'] ?? '');
      tables.set(key, (tables.get(key) ?? 0) + sample.value);
    }
  }
  return { requests, errors, buckets, tables };
}

const keyOf = (/** @type {string} */ account, /** @type {string} */ table) => `${account} ${table.toLowerCase()}`;

/** A reading, an earlier one, and rates a second between them; null if they are too far apart. */
function between(/** @type {number} */ index, steps = 1) {
  const [before, now] = [readings[Math.max(0, index - steps)], readings[index]];
  if (!before || !now || before === now || now.time - before.time > steps * GAP) {
    return null;
  }
  const seconds = (now.time - before.time) / 1000;
  return { before, now, rate: (/** @type {number} */ end, /** @type {number} */ begin) => Math.max(end - begin, 0) / seconds };
}

/** The indexes of the readings of so many minutes. */
function lately(/** @type {number} */ minutes) {
  const end = readings.at(-1)?.time ?? 0;
  return [...readings.keys()].filter((index) => index > 0 && end - (readings[index]?.time ?? 0) <= minutes * MINUTE);
}

/** The requests of the last seconds, so that the shown number does not flicker. */
const SMOOTH = 5;

/** The requests a second of a table: now, and as a curve. */
export function requestsOf(/** @type {string} */ account, /** @type {string} */ table) {
  const key = keyOf(account, table);
  const rates = lately(SPANS[0]).map((index) => {
    const step = between(index, SMOOTH);
    // A table that was not counted before has begun just now.
    return step ? step.rate(step.now.tables.get(key) ?? 0, step.before.tables.get(key) ?? 0) : 0;
  });
  const most = Math.max(0.1, ...rates);
  const points = rates.map((rate, index) => `${(100 * index) / Math.max(1, rates.length - 1)},${22 - (20 * rate) / most}`);
  const view = { class: 'curve', viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' };
  const isCurve = rates.length > 1 && rates.some((rate) => rate > 0);
  return { rate: rates.at(-1) ?? 0, curve: isCurve && svg('svg', view, svg('polyline', { points: points.join(' ') })) };
}

/** A number of requests a second in words. */
export const rateText = (/** @type {number} */ rate) => (rate > 0 && rate < 10 ? rate.toFixed(1) : number(Math.round(rate)));

/** The points of the plots. */
function steps() {
  return lately(span()).map((index) => {
    const time = readings[index]?.time ?? 0;
    const [step, some] = [between(index), between(index, SMOOTH)];
    if (!step || !some) {
      return { time, requests: null, errors: null, p99: null };
    }
    const { before, now, rate } = step;
    /** @type {[number, number][]} */
    const buckets = [...now.buckets].map(([end, count]) => [end, count - (some.before.buckets.get(end) ?? 0)]);
    const latency = quantileOf(buckets, 0.99);
    return {
      time, requests: rate(now.requests, before.requests), errors: rate(now.errors, before.errors),
      p99: latency === null ? null : 1000 * Math.min(latency, LONGEST),
    };
  });
}

/** Draws requests a second, and the latency that 99 of 100 requests do not exceed. */
export function drawLoad(/** @type {HTMLElement} */ where) {
  const points = steps();
  const line = (/** @type {'requests' | 'errors' | 'p99'} */ series) => points.map((point) => ({ time: point.time, value: point[series] }));
  const { requests: now = null, errors = null, p99 = null } = points.at(-1) ?? {};
  const isQuiet = points.every(({ requests }) => !requests);
  const words = now === null ? 'The next reading comes in 2 seconds' : isQuiet ? `No requests in the last ${span()} minutes`
    : `${rateText(now)} requests and ${rateText(errors ?? 0)} errors a second now`;
  const slow = p99 === null ? 'No requests just now' : `99 of 100 requests took at most about ${duration(p99)}`;
  const columns = Math.max(1, Math.min(where.dataset['columns'] === '3' ? 3 : 2, Math.floor((where.clientWidth + 16) / 320)));
  const width = Math.max(240, (where.clientWidth - 16 * (columns - 1)) / columns - 34);
  const legend = (/** @type {[string, string][]} */ ...series) => element('p', { class: 'legend' },
    ...series.map(([name, text]) => element('span', { class: name }, text)));
  const figures = [
    figure('Requests a second', now === null || isQuiet ? '' : rateText(now), words, isQuiet ? words : '',
      chart(width, isQuiet ? [] : [['requests', line('requests')], ['errors', line('errors')]], 1, number),
      legend(['requests', 'requests'], ['errors', 'errors'])),
    figure('Latency, p99', p99 === null ? '' : duration(p99), slow, isQuiet ? words : '',
      chart(width, [['p99', line('p99')]], 1, duration), legend(['p99', '99 of 100 requests took at most so long']))];
  where.querySelectorAll('.plot').forEach((old) => old.remove());
  where.prepend(...figures);
  if (pointer) {
    const { clientX, clientY } = pointer;
    const below = document.elementFromPoint(clientX, clientY)?.closest('.picture svg');
    below?.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY }));
  }
}

function figure(/** @type {string} */ title, /** @type {string} */ value, /** @type {string} */ words, /** @type {string} */ empty,
  /** @type {SVGElement & {}} */ picture, /** @type {HTMLElement} */ legend) {
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

/** Draws lines over the time that plots show, with axes, and the values under the pointer. */
function chart(/** @type {number} */ width, /** @type {[name: string, points: Point[]][]} */ series, /** @type {number} */ least,
  /** @type {(tick: number) => string} */ unit) {
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
  const all = /** @type {Point[][]} */ ([[]]);
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
  const all = /** @type {Map<string, {requests: number, errors: number, buckets: [number, number][]}>} */ (new Map());
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

/** Returns a quantile in seconds, or null if there are no requests. The requests of a bucket are taken to be spread evenly over it. */
function quantileOf(/** @type {[number, number][]} */ buckets, /** @type {number} */ part) {
  const sorted = [...buckets].sort((a, b) => a[0] - b[0]);
  const rank = (sorted.at(-1)?.[1] ?? 0) * part;
  const index = sorted.findIndex(([, count]) => count >= rank && count > 0);
  const [end, count] = sorted[index] ?? [0, 0];
  const [begin, below] = sorted[index - 1] ?? [0, 0];
  return index < 0 ? null : end === Infinity ? end : begin + ((end - begin) * (rank - below)) / (count - below);
}

export function quantile(/** @type {[number, number][]} */ buckets, /** @type {number} */ part) {
  const found = quantileOf(buckets, part);
  return found === null ? '' : found > LONGEST ? `> ${LONGEST} s` : duration(1000 * found);
}

/** The recent requests of the most requested partitions, which are all that the gateway knows by partition. */
export function hotOf(/** @type {Sample[]} */ samples) {
  return samples.filter(({ name }) => name === 'table_service_hot_partition_requests').sort((a, b) => b.value - a.value)
    .map(({ labels, value }) => ({
      account: labels['account'] ?? '', table: labels['table'] ?? '', partition: labels['partition'] ?? '', value,
    }));
}

/** A filter for the entities of a partition. */
export const filterOf = (/** @type {string} */ partition) => `PartitionKey eq '${partition.replaceAll("'", "''")}'`;

/** A bar that is so long a part of its place. */
export function bar(/** @type {number} */ part, /** @type {string} */ name = '') {
  return svg('svg', { viewBox: '0 0 100 8', class: `bar ${name}`, 'aria-hidden': 'true', preserveAspectRatio: 'none' },
    svg('rect', { width: 100 * Math.min(Math.max(part, 0), 1), height: 8 }));
}

export function hotPartitions(/** @type {Sample[]} */ samples, /** @type {string | null} */ account, /** @type {number} */ most = 10) {
  const hot = hotOf(samples).filter((one) => account === null || one.account === account).slice(0, most);
  if (hot.length === 0) {
    return element('p', { class: 'quiet' }, 'No requests yet.');
  }
  const largest = hot[0]?.value ?? 1;
  return element('ol', { class: 'bars' }, ...hot.map(({ account, table, partition, value }) => element('li', {},
    element('a', { href: address({ account, table, view: 'entities', filter: filterOf(partition), select: '' }), title: partition },
      element('span', { class: 'of' }, table), element('bdi', {}, partition === '' ? '(empty)' : partition)),
    bar(value / largest), element('span', { class: 'amount' }, number(value)))));
}
