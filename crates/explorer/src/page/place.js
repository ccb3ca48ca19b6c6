// Where one is: account, table, view, filter and position stand in the fragment of the address, so that an address can be sent to a
// colleague. The token never does.

/**
 * @typedef {object} Place
 * @property {string} account
 * @property {string} table '' if there is none
 * @property {string} view entities, design, changes, access or load
 * @property {string} filter
 * @property {string} select names of properties, or ''
 * @property {string} position the continuation token with which the page of entities begins, or ''
 */

const NAMES = /** @type {const} */ (['account', 'table', 'view', 'filter', 'select', 'position']);

/** @returns {Place} */
export function place() {
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
 * The address of another place. What is not named stays, but a position belongs to one filter.
 *
 * @param {Partial<Place>} changes
 */
export function address(changes) {
  const next = { ...place(), position: '', ...changes };
  const fragment = new URLSearchParams();
  for (const name of NAMES) {
    if (next[name] && !(name === 'view' && next[name] === 'entities')) {
      fragment.set(name, next[name]);
    }
  }
  return `#${fragment}`;
}

/**
 * Goes there. If that is where we are, the view is made anew.
 *
 * @param {Partial<Place>} changes
 */
export function go(changes) {
  const next = address(changes);
  if (next === location.hash || (next === '#' && location.hash === '')) {
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = next;
  }
}
