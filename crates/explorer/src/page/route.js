// The route: account, table, view, filter and position in the fragment of the address, so that users can send an address to each other.
// The token is not in it.

/** @typedef {Record<typeof NAMES[number], string>} Route empty texts for what is not there; a position is a continuation token */

const NAMES = /** @type {const} */ (['account', 'table', 'view', 'filter', 'select', 'position']);

/** @returns {Route} */
export function route() {
  const given = new URLSearchParams(location.hash.slice(1));
  const [account = '', table = '', view = '', filter = '', select = '', position = ''] = NAMES.map((name) => given.get(name) ?? '');
  return { account, table, view: view || 'entities', filter, select, position };
}

/** Returns the address of another route. Members without a change stay, except the position, which belongs to one filter. */
export function address(/** @type {Partial<Route>} */ changes) {
  const next = { ...route(), position: '', ...changes };
  const fragment = new URLSearchParams();
  for (const name of NAMES) {
    if (next[name] && !(name === 'view' && next[name] === 'entities')) {
      fragment.set(name, next[name]);
    }
  }
  return `#${fragment}`;
}

/** Goes to another route. The same route loads its view again. */
export function go(/** @type {Partial<Route>} */ changes) {
  const next = address(changes);
  if (next === location.hash || (next === '#' && location.hash === '')) {
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = next;
  }
}
