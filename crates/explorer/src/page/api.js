// Calls of the server, with the token.

/** @typedef {import('./place.js').Place} Place */

/** Local storage belongs to one origin, and that includes the port. */
const TOKEN = 'table-service-explorer-token';

/** The token of the address, until the server takes it: a link of any site can have a wrong one, which replaces none. */
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

/** Takes the token out of the address. It is kept for this origin when the server takes it. Returns whether there was one. */
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
 * @param {Record<string, string | number | boolean | null>} parameters
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
 * The calls of a part of the page, for one place. Once the part is asked for something else, they fail with an AbortError, so what
 * they would have shown is never shown.
 */
export class Scope {
  /**
   * @param {Place} place
   * @param {AbortSignal} signal
   */
  constructor(place, signal) {
    this.place = place;
    this.signal = signal;
  }

  /**
   * One call, in the database of the place's account.
   *
   * @param {string} name
   * @param {Record<string, string | number | boolean | null>} [parameters]
   * @returns {Promise<any>}
   */
  call(name, parameters = {}) {
    return post(`/${encodeURIComponent(this.place.account)}/${name}`, parameters, this.signal);
  }

  /**
   * One call that changes something. It is not taken back when the part is asked for something else, because nobody would know what
   * became of it. If it fails then, the error says what it is about.
   *
   * @param {string} name
   * @param {Record<string, string | number | boolean | null>} [parameters]
   * @returns {Promise<any>}
   */
  async step(name, parameters = {}) {
    try {
      return await post(`/${encodeURIComponent(this.place.account)}/${name}`, parameters, new AbortController().signal);
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
   * The same for one whose answer is shown, unless the part was asked for something else.
   *
   * @param {string} name
   * @param {Record<string, string | number | boolean | null>} [parameters]
   * @returns {Promise<any>}
   */
  async change(name, parameters = {}) {
    const answer = await this.step(name, parameters);
    this.signal.throwIfAborted();
    return answer;
  }

  /** The panel's scope for the same place, unless this one has ended: what is shown no more does nothing. */
  forPanel() {
    this.signal.throwIfAborted();
    return panel.ask(this.place);
  }

  /** @returns {Promise<{accounts: string[], canWrite: boolean, version: string}>} */
  hello() {
    return post('', {}, this.signal);
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

/** A part of the page that shows answers: only those to what it was asked for last. There are no calls outside a scope of a part. */
export class Part {
  #last = new AbortController();
  #outer;

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
   * @param {Place} place
   */
  ask(place) {
    this.leave();
    this.#last = new AbortController();
    const { signal } = this.#last;
    return new Scope(place, this.#outer ? AbortSignal.any([this.#outer, signal]) : signal);
  }
}

/**
 * Whether an error only says that a part was asked for something else.
 *
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** The panel beside the view. */
export const panel = new Part();

/**
 * Lets the browser download what it would take too much memory to have here.
 *
 * @param {Scope} scope
 * @param {string} format jsonl or csv
 */
export async function download(scope, format) {
  const { table, filter } = scope.place;
  const { path } = await scope.call('export', { table, filter: filter || null, format });
  const link = document.createElement('a');
  link.href = path;
  link.download = '';
  document.body.append(link);
  link.click();
  link.remove();
}
