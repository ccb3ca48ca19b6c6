// Calls of the server, with the token.

/** @import { Route } from './route.js' */

/** Local storage belongs to one origin, and that includes the port. */
const TOKEN = 'table-service-explorer-token';

/** The token of the address, until the server accepts it. A link of another site may have a wrong one, which must replace none. */
let untried = '';

/** @typedef {[name: string, type: string, value: string, length: number]} Property */

/**
 * In a page, long values are cut, and their length is that of the whole.
 *
 * @typedef {{partitionKey: string, rowKey: string, etag: string, timestamp: string, properties: Property[]}} Entity
 */

/** An error of the server: a code of the service, a message, and a hint. */
export class Problem extends Error {
  constructor(/** @type {number} */ status, /** @type {string} */ code, /** @type {string} */ message, hint = '') {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint || undefined;
  }
}

/** Takes the token out of the address. It is kept for this origin when the server accepts it. Returns whether there was one. */
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get('token');
  if (token !== null) {
    fragment.delete('token');
    const rest = fragment.toString();
    history.replaceState(null, '', location.pathname + (rest ? `#${rest}` : ''));
    // A token with other characters cannot be in a header.
    untried = /^[!-~]+$/.test(token) ? token : '';
  }
  return token !== null;
}

/** Since when the gateway has not answered, or null. */
export let awaySince = /** @type {Date | null} */ (null);

/** Notes whether the gateway answers, and tells when that changes. */
function answered(/** @type {boolean} */ isThere) {
  if (isThere === (awaySince !== null)) {
    awaySince = isThere ? null : new Date();
    dispatchEvent(new Event('gateway-away'));
  }
}

function noAnswer() {
  answered(false);
  return new Problem(0, 'NoAnswer', 'The gateway does not answer.', 'Look whether it still runs, and try again.');
}

/**
 * Returns a module that is loaded when it is needed.
 *
 * @template T
 * @param {Promise<T>} module
 */
export function loaded(module) {
  return module.catch(() => {
    throw noAnswer();
  });
}

/** @returns {Promise<any>} */
async function post(/** @type {string} */ path, /** @type {Record<string, unknown>} */ parameters, /** @type {AbortSignal} */ signal) {
  const kept = localStorage.getItem(TOKEN) ?? '';
  const token = untried === '' ? kept : untried;
  const body = JSON.stringify(parameters);
  const first = begun.get(path + body);
  begun.delete(path + body);
  let response;
  let answer;
  try {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` };
    response = await (first?.token === token ? first.response : fetch(`/explorer/api${path}`, { method: 'POST', headers, body, signal }));
    answer = await response.json();
  } catch {
    signal.throwIfAborted();
    throw noAnswer();
  }
  answered(true);
  signal.throwIfAborted();
  if (response.ok && token !== kept) {
    localStorage.setItem(TOKEN, token);
  }
  if (token === untried && (response.ok || response.status === 401)) {
    untried = '';
  }
  if (response.status === 401 && token !== kept && kept !== '') {
    return post(path, parameters, signal);
  }
  if (!response.ok) {
    const { code, message, hint } = answer.error;
    throw new Problem(response.status, code, message, hint);
  }
  return answer;
}

// Later views ask anew.
addEventListener('hashchange', () => begun.clear());

/**
 * The calls of a part of the page, for one route. When the part begins another scope, they fail with an AbortError, so that old
 * answers are never shown.
 */
export class Scope {
  constructor(/** @type {Route} */ route, /** @type {AbortSignal} */ signal) {
    this.route = route;
    this.signal = signal;
  }

  /** Makes a call, in the database of the route's account. */
  call(/** @type {string} */ name, /** @type {Record<string, unknown>} */ parameters = {}) {
    return post(`/${encodeURIComponent(this.route.account)}/${name}`, parameters, this.signal);
  }

  /**
   * Makes a call that writes. It goes on when the part begins another scope, because an aborted write might have happened or not. If
   * it fails then, the error names the write.
   */
  async step(/** @type {string} */ name, /** @type {Record<string, unknown>} */ parameters = {}) {
    try {
      return await post(`/${encodeURIComponent(this.route.account)}/${name}`, parameters, new AbortController().signal);
    } catch (error) {
      if (error instanceof Problem && this.signal.aborted) {
        const { table, partitionKey, rowKey } = parameters;
        const what = [name, table, partitionKey, rowKey].filter((part) => part !== undefined).join(' · ');
        error.hint = `This is the answer to an earlier change: ${what}. ${error.hint ?? ''}`;
      }
      throw error;
    }
  }

  /** Makes a call that writes, as `step` does, and returns the answer unless the part has begun another scope. */
  async change(/** @type {string} */ name, /** @type {Record<string, unknown>} */ parameters = {}) {
    const answer = await this.step(name, parameters);
    this.signal.throwIfAborted();
    return answer;
  }

  /** Begins a scope of the panel for the same route, unless this one has ended: a replaced view does nothing. */
  async forPanel() {
    this.signal.throwIfAborted();
    if (!await panel.isFree()) {
      throw new DOMException('The panel stays', 'AbortError');
    }
    this.signal.throwIfAborted();
    return panel.begin(this.route);
  }

  /**
   * Returns the accounts, where clients reach them, the keys that are public, and the path of the script of the server's page.
   *
   * @returns {Promise<{accounts: string[], clients: string, keys: Record<string, string>, canWrite: boolean, script: string}>}
   */
  hello() {
    return post('', {}, this.signal);
  }

  /** The metrics of the gateway, as text. */
  async metrics() {
    try {
      const response = await fetch('/metrics', { signal: this.signal });
      const text = await response.text();
      answered(true);
      return text;
    } catch {
      this.signal.throwIfAborted();
      throw noAnswer();
    }
  }
}

/** A part of the page. It shows only answers to the calls of its last scope. All calls belong to a scope. */
export class Part {
  #last = new AbortController();
  #outer;
  /**
   * Returns whether changes in the part would be lost, and asks whether they may be.
   *
   * @type {{holds: () => boolean, ask: () => Promise<boolean>} | null}
   */
  guard = null;

  /** @param {AbortSignal} [outer] of the scope that has shown this part, and ends it */
  constructor(outer) {
    this.#outer = outer;
  }

  get isGuarded() {
    return this.guard?.holds() ?? false;
  }

  /** Returns whether the part may show something else, and asks if something would be lost. */
  async isFree() {
    return !this.isGuarded || this.guard?.ask();
  }

  /** Ends the last scope. */
  leave() {
    this.#last.abort();
  }

  /** Ends the last scope, and begins one. */
  begin(/** @type {Route} */ route) {
    this.leave();
    this.#last = new AbortController();
    const { signal } = this.#last;
    return new Scope(route, this.#outer ? AbortSignal.any([this.#outer, signal]) : signal);
  }
}

/** Returns whether an error only says that a scope has ended. */
export function isAbort(/** @type {unknown} */ error) {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** Waits for so many milliseconds. */
export function pause(/** @type {number} */ time) {
  return new Promise((resolve) => {
    setTimeout(resolve, time);
  });
}

/** The panel beside the view. */
export const panel = new Part();

/** Lets the browser download entities, which would take too much memory in a script. */
export async function download(/** @type {Scope} */ scope, /** @type {string} */ format) {
  const { table, filter } = scope.route;
  const { path } = await scope.call('export', { table, filter: filter || null, format });
  const link = document.createElement('a');
  link.href = path;
  link.download = '';
  document.body.append(link);
  link.click();
  link.remove();
}
