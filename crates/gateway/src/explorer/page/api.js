// Calls of the server, with the token.

import { place } from './place.js';

/** Local storage belongs to one origin, and that includes the port. */
const TOKEN = 'table-service-explorer-token';

/** @typedef {[name: string, type: string, value: string, length: number]} Property */

/**
 * @typedef {object} Entity
 * @property {string} partitionKey
 * @property {string} rowKey
 * @property {string} etag
 * @property {string} timestamp
 * @property {Property[]} properties in a page, long values are cut; the length is that of the whole
 * @property {string} [json] the properties as the service writes them
 */

/** What the server refuses: a code of the service, a message, and what to do. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {string} [hint]
   */
  constructor(status, code, message, hint) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

/** Takes the token out of the address, and keeps it for this origin. */
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get('token');
  if (token !== null) {
    fragment.delete('token');
    const rest = fragment.toString();
    history.replaceState(null, '', location.pathname + (rest ? `#${rest}` : ''));
    localStorage.setItem(TOKEN, token);
  }
}

/**
 * @param {string} path
 * @param {Record<string, string | number | boolean | null>} parameters
 * @param {AbortSignal} [signal]
 */
async function post(path, parameters, signal) {
  let response;
  let answer;
  try {
    response = await fetch(`/explorer/api${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Bearer ${localStorage.getItem(TOKEN) ?? ''}`,
      },
      body: JSON.stringify(parameters),
      signal: signal ?? null,
    });
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new Problem(0, 'NoAnswer', 'The gateway does not answer.', 'Look whether it still runs, and try again.');
  }
  if (!response.ok) {
    const { code, message, hint } = answer.error;
    throw new Problem(response.status, code, message, hint);
  }
  return answer;
}

/**
 * One call, in the database of the chosen account.
 *
 * @param {string} name
 * @param {Record<string, string | number | boolean | null>} [parameters]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function call(name, parameters = {}, signal) {
  return post(`/${encodeURIComponent(place().account)}/${name}`, parameters, signal);
}

/** @returns {Promise<{accounts: string[], canWrite: boolean, version: string}>} */
export function hello() {
  return post('', {});
}

/** The metrics of the gateway, as text. */
export async function metrics() {
  const response = await fetch('/metrics');
  return response.text();
}

/**
 * Lets the browser download what it would take too much memory to have here.
 *
 * @param {string} table
 * @param {string} filter
 * @param {string} format jsonl or csv
 */
export async function download(table, filter, format) {
  const { path } = await call('export', { table, filter: filter || null, format });
  const link = document.createElement('a');
  link.href = path;
  link.download = '';
  document.body.append(link);
  link.click();
  link.remove();
}
