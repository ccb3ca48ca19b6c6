// The data that the browser keeps for this origin beside the token: widths and orders of columns, filters, the size of
// a page. Nothing is kept before a user has changed something.

const PREFIX = 'table-service-explorer-';

/** Returns what was kept under a name, or null. Anything may have been written there. */
export function recall(/** @type {string} */ name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? 'null');
  } catch {
    return null;
  }
}

/** Keeps a value. A browser that keeps no more has the value only as long as the page is open. */
export function remember(/** @type {string} */ name, /** @type {unknown} */ value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // There is no more room.
  }
}

/** Returns the texts of a list that was kept. */
export function texts(/** @type {unknown} */ list) {
  return Array.isArray(list) ? /** @type {string[]} */ (list.filter((one) => typeof one === 'string')) : [];
}
