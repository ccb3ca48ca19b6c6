// How PostgreSQL would find the entities of a filter.

import { Problem } from './api.js';
import { element } from './dom.js';

/**
 * Shows it, and returns null. Of a filter that cannot be executed it shows nothing, and returns the error.
 *
 * @param {HTMLElement} where
 * @param {import('./api.js').Scope} scope
 * @returns {Promise<Problem | null>}
 */
export async function explain(where, scope) {
  const { table, filter } = scope.route;
  try {
    const found = await scope.call('explain_query', { table, filter: filter || null });
    const isSlow = /scan$/.test(found.access) && /^(table|partition)/.test(found.access) && Boolean(found.residual);
    where.replaceChildren(
      element('span', { class: isSlow ? 'badge slow' : 'badge' }, found.access),
      ...(found.key_ranges ?? []).slice(0, 8).map((/** @type {string} */ range) => element('code', {}, range)),
      found.key_ranges?.length > 8 ? `and ${found.key_ranges.length - 8} more ranges` : '',
      found.residual ? element('span', {}, 'tested on each row: ', element('code', {}, found.residual)) : '',
      element('details', {}, element('summary', {}, 'SQL and plan'),
        element('pre', { tabindex: '0' }, found.sql), element('pre', { tabindex: '0' }, found.plan)));
    return null;
  } catch (error) {
    if (!(error instanceof Problem)) {
      throw error;
    }
    where.replaceChildren();
    return error;
  }
}
