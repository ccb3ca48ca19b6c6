// The route: account, table, view, filter and position in the fragment of the address, so that users can send an address to each other.
// The token is not in it.

/**
 * @typedef {object} Route
 * @property {string} account
 * @property {string} table '' if there is none
 * @property {string} view entities, design, changes, access or load
 * @property {string} filter
 * @property {string} select names of properties, or ''
 * @property {string} position the continuation token with which the page of entities begins, or ''
 */

const NAMES = /** @type {const} */ (['account', 'table', 'view', 'filter', 'select', 'position']);

/** @returns {Route} */
export function route() {
  const given = new URLSearchParams(location.hash.slice(1));
  return {
    account: given.get('account') ?? '',
    table: given.get('table') ?? '',
    view: given.get('view') ?? 'entities',
    filter: given.get('filter') ?? '',
    select: given.get('select') ?? '',
    position: given.get('position') ?? '',
  };
}

/**
 * Returns the address of another route. Members without a change stay, except the position, which belongs to one filter.
 *
 * @param {Partial<Route>} changes
 */
export function address(changes) {
  const next = { ...route(), position: '', ...changes };
  const fragment = new URLSearchParams();
  for (const name of NAMES) {
    if (next[name] && !(name === 'view' && next[name] === 'entities')) {
      fragment.set(name, next[name]);
    }
  }
  return `#${fragment}`;
}

/**
 * Goes to another route. The same route loads its view again.
 *
 * @param {Partial<Route>} changes
 */
export function go(changes) {
  const next = address(changes);
  if (next === location.hash || (next === '#' && location.hash === '')) {
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = next;
  }
}
