// The icons of the page, drawn for it: lines of 1.5 in a square of 16, in the colour of the text around them.

import { svg } from './dom.js';

const PATHS = /** @type {const} */ ({
  back: 'M10 3.5 5.5 8l4.5 4.5',
  chart: 'M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6',
  check: 'm3 8.5 3.2 3.2L13 4.5',
  clear: 'M2.5 13.5h11M5.5 11 2.8 8.3 8.5 2.6 13 7.1 9.2 11z',
  clock: 'M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M8 5v3l2 1.5',
  close: 'm4 4 8 8M12 4l-8 8',
  columns: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  copy: 'M5.5 5.5h7.5V13H5.5zM10.5 3H3v7.5',
  count: 'M6.2 2.5 5 13.5M11 2.5 9.8 13.5M2.8 5.8h11M2.2 10.2h11',
  down: 'm4 6 4 4 4-4',
  export: 'M8 10V2.5M5 5.2 8 2.4l3 2.8M3 9.5v4h10v-4',
  filter: 'M2.5 3.5h11L9.4 8.4v4.4l-2.8-1.4v-3z',
  forward: 'M6 3.5 10.5 8 6 12.5',
  grip: 'M6 4v.1M6 8v.1M6 12v.1M10 4v.1M10 8v.1M10 12v.1',
  import: 'M8 2.5V10M5 7.3l3 2.8 3-2.8M3 9.5v4h10v-4',
  key: 'M5 8.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5M6.9 9.1 13 3M10.7 5.3l2 2',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  more: 'M3.5 8v.1M8 8v.1M12.5 8v.1',
  pencil: 'M3 13l.7-2.9L11 2.8l2.2 2.2-7.3 7.3z',
  plus: 'M8 3v10M3 8h10',
  reload: 'M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3',
  star: 'm8 2.3 1.7 3.6 4 .5-2.9 2.7.8 3.9L8 11.1 4.4 13l.8-3.9-2.9-2.7 4-.5z',
  table: 'M2.5 3h11v10h-11zM2.5 6.3h11M6.2 6.3V13',
  trash: 'M3 4.5h10M6.2 4.5v-2h3.6v2M4.3 4.5l.6 9h6.2l.6-9',
  up: 'm4 10 4-4 4 4',
});

/** @typedef {keyof typeof PATHS} Icon */

/** An icon. It says nothing to screen readers: the text or the label beside it does. */
export function icon(/** @type {Icon} */ name) {
  const isDots = name === 'more' || name === 'grip';
  return svg('svg', { class: isDots ? 'icon dots' : 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('path', { d: PATHS[name] }));
}
