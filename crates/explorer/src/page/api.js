// Calls of the server, with the token.

/** @typedef {import('./route.js').Route} Route */

/** Local storage belongs to one origin, and that includes the port. */
const TOKEN = 'table-service-explorer-token';

/** The token of the address, until the server accepts it. A link of another site may have a wrong one, which must replace none. */
let untried = '';

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

/** An error of the server: a code of the service, a message, and a hint. */
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

/** Takes the token out of the address. It is kept for this origin when the server accepts it. Returns whether there was one. */
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get('token');
  if (token !== null) {
    fragment.delete('token');
    const rest = fragment.toString();
    history.replaceState(null, '', location.pathname + (rest ? `#${rest}` : ''));
    // Another one cannot stand in a header.
    untried = /^[!-~]+$/.test(token) ? token : '';
  }
  return token !== null;
}

function noAnswer() {
  return new Problem(0, 'NoAnswer', 'The gateway does not answer.', 'Look whether it still runs, and try again.');
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} parameters
 * @param {AbortSignal} signal
 * @returns {Promise<any>}
 */
async function post(path, parameters, signal) {
  const kept = localStorage.getItem(TOKEN) ?? '';
  const token = untried === '' ? kept : untried;
  let response;
  let answer;
  try {
    response = await fetch(`/explorer/api${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Bearer ${token}`,
      },
      body: JSON.stringify(parameters),
      signal,
    });
    answer = await response.json();
  } catch {
    signal.throwIfAborted();
    throw noAnswer();
  }
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

/**
 * The first calls, which are begun before the part of the page that shows their answers is there: by what they ask.
 *
 * @type {Map<string, Promise<any>>}
 */
const begun = new Map();
// What is shown later asks anew.
addEventListener('hashchange', () => begun.clear());

/**
 * Begins a call, whose answer `ask` gives once.
 *
 * @param {string} path
 * @param {Record<string, unknown>} parameters
 */
export function begin(path, parameters) {
  const call = post(path, parameters, new AbortController().signal);
  // Who asks for the answer gets the error.
  call.catch(() => {});
  begun.set(path + JSON.stringify(parameters), call);
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} parameters
 * @param {AbortSignal} signal
 * @returns {Promise<any>}
 */
async function ask(path, parameters, signal) {
  const key = path + JSON.stringify(parameters);
  const call = begun.get(key) ?? post(path, parameters, signal);
  begun.delete(key);
  const answer = await call;
  signal.throwIfAborted();
  return answer;
}

/**
 * The calls of a part of the page, for one route. When the part begins another scope, they fail with an AbortError, so that old
 * answers are never shown.
 */
export class Scope {
  /**
   * @param {Route} route
   * @param {AbortSignal} signal
   */
  constructor(route, signal) {
    this.route = route;
    this.signal = signal;
  }

  /**
   * Makes a call, in the database of the route's account.
   *
   * @param {string} name
   * @param {Record<string, unknown>} [parameters]
   * @returns {Promise<any>}
   */
  call(name, parameters = {}) {
    return ask(`/${encodeURIComponent(this.route.account)}/${name}`, parameters, this.signal);
  }

  /**
   * Makes a call that writes. It goes on when the part begins another scope, because an aborted write might have happened or not. If
   * it fails then, the error names the write.
   *
   * @param {string} name
   * @param {Record<string, unknown>} [parameters]
   * @returns {Promise<any>}
   */
  async step(name, parameters = {}) {
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

  /**
   * Does the same for a call whose answer is shown, unless the part has begun another scope.
   *
   * @param {string} name
   * @param {Record<string, unknown>} [parameters]
   * @returns {Promise<any>}
   */
  async change(name, parameters = {}) {
    const answer = await this.step(name, parameters);
    this.signal.throwIfAborted();
    return answer;
  }

  /** Begins a scope of the panel for the same route, unless this one has ended: a replaced view does nothing. */
  forPanel() {
    this.signal.throwIfAborted();
    if (panel.guard && !panel.guard()) {
      throw new DOMException('The panel stays', 'AbortError');
    }
    return panel.begin(this.route);
  }

  /**
   * Returns the accounts, where clients reach them, the keys that are public, and the path of the script of the server's page.
   *
   * @returns {Promise<{accounts: string[], clients: string, keys: Record<string, string>, canWrite: boolean, script: string}>}
   */
  hello() {
    return ask('', {}, this.signal);
  }

  /** The metrics of the gateway, as text. */
  async metrics() {
    try {
      const response = await fetch('/metrics', { signal: this.signal });
      return await response.text();
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
   * Returns whether what the part shows may go. If not, it asks for it.
   *
   * @type {(() => boolean) | null}
   */
  guard = null;

  /** @param {AbortSignal} [outer] of the scope that has shown this part, and ends it */
  constructor(outer) {
    this.#outer = outer;
  }

  /** Ends the last scope. */
  leave() {
    this.#last.abort();
  }

  /**
   * Ends the last scope, and begins one.
   *
   * @param {Route} route
   */
  begin(route) {
    this.leave();
    this.#last = new AbortController();
    const { signal } = this.#last;
    return new Scope(route, this.#outer ? AbortSignal.any([this.#outer, signal]) : signal);
  }
}

/**
 * Returns whether an error only says that a scope has ended.
 *
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** The panel beside the view. */
export const panel = new Part();

/**
 * Lets the browser download entities, which would take too much memory in a script.
 *
 * @param {Scope} scope
 * @param {string} format jsonl or csv
 */
export async function download(scope, format) {
  const { table, filter } = scope.route;
  const { path } = await scope.call('export', { table, filter: filter || null, format });
  const link = document.createElement('a');
  link.href = path;
  link.download = '';
  document.body.append(link);
  link.click();
  link.remove();
}
