// The calls that the first view waits for. They are begun before the rest of the page runs.

import { begin, takeToken } from './api.js';
import { recall } from './memory.js';
import { route } from './route.js';

/** @typedef {import('./route.js').Route} Route */

/** The numbers of entities that a page can have. */
const SMALLEST = 100;
export const SIZES = [SMALLEST, 200, 500, 1000];

/** The number of entities of a page that the user has chosen. */
export function pageSize() {
  const kept = recall('page');
  return SIZES.find((one) => one === kept) ?? SMALLEST;
}

/** What a page of entities is asked with. */
export function pageOf(/** @type {Route} */ { table, filter, select, position }) {
  return { table, filter: filter || null, select: select || null, top: pageSize(), token: position || null };
}

/** What an explanation of a filter is asked with. */
export function explanationOf(/** @type {Route} */ { table, filter }) {
  return { table, filter: filter || null };
}

takeToken();
begin('', {});
const first = route();
if (first.account && first.table && first.view === 'entities') {
  const calls = `/${encodeURIComponent(first.account)}`;
  begin(`${calls}/query_page`, pageOf(first));
  begin(`${calls}/explain_query`, explanationOf(first));
}
