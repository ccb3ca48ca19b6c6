// The explorer. It shows one place at a time (place.js): a table with its entities, its design, its access policies, the changes of
// its database, or the load of the gateway.

import { hello, takeToken } from './api.js';
import { showAccess, showChanges, showDesign } from './design.js';
import { attempt, byId, closePanel, element, say, shown as problemOf } from './dom.js';
import { showEntities } from './entities.js';
import { address, go, place } from './place.js';
import { showLoad } from './plots.js';
import { markTable, showTables } from './tables.js';

const VIEWS = /** @type {const} */ ([
  ['entities', 'Entities'], ['design', 'Indexes and expiry'], ['access', 'Access policies'], ['changes', 'Changes'],
]);

let canWrite = false;
/** The account whose tables are listed. */
let listed = '';
/** Account, table and view that were shown last. */
let seen = '';
let shown = new AbortController();

async function start() {
  takeToken();
  const account = /** @type {HTMLSelectElement} */ (byId('account'));
  const known = await hello();
  canWrite = known.canWrite;
  byId('mode').textContent = canWrite ? '' : 'read only';
  account.replaceChildren(...known.accounts.map((name) => element('option', {}, name)));
  account.onchange = () => go({ account: account.value, table: '', view: 'entities', filter: '', select: '' });
  if (!known.accounts.includes(place().account)) {
    history.replaceState(null, '', address({ account: known.accounts[0] ?? '', position: place().position }));
  }
  await show();
}

/** Lists the tables of the account, or says why it cannot. */
async function listTables() {
  const list = byId('tables');
  try {
    await showTables(list, canWrite);
  } catch (error) {
    list.replaceChildren(element('h2', {}, 'Tables'), problemOf(error));
  }
}

/** Shows the place that the address names. */
async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { account, table, view, filter } = place();
  const list = byId('tables');
  const main = byId('view');
  closePanel();
  /** @type {HTMLSelectElement} */ (byId('account')).value = account;
  document.title = table && view !== 'load' ? `${table} – Explorer` : 'Explorer';
  markTable(list);
  if (listed !== account) {
    listed = account;
    list.replaceChildren();
    await listTables();
  }
  const here = [account, table, view].join(' ');
  if (here !== seen) {
    seen = here;
    say('');
  }
  const next = element('div', {});
  try {
    if (view === 'load') {
      byId('title').textContent = 'Load of the gateway';
      main.replaceChildren(next);
      await showLoad(next, signal);
    } else if (!table) {
      byId('title').textContent = 'Explorer';
      main.replaceChildren(element('p', { class: 'quiet' }, 'Choose a table.'));
    } else {
      const tabs = element('nav', { class: 'tabs', 'aria-label': 'Views of the table' },
        ...VIEWS.map(([name, text]) => element('a', {
          href: address({ view: name, filter }), 'aria-current': name === view ? 'page' : null,
        }, text)));
      byId('title').textContent = table;
      main.replaceChildren(tabs, next);
      switch (view) {
        case 'design':
          await showDesign(next, canWrite, signal);
          break;
        case 'access':
          await showAccess(next, canWrite, signal);
          break;
        case 'changes':
          await showChanges(next, signal);
          break;
        default:
          await showEntities(next, canWrite, signal);
      }
    }
  } catch (error) {
    // What another place has aborted is no error.
    if (!signal.aborted) {
      throw error;
    }
  }
}

addEventListener('hashchange', () => {
  // An address with a token may be opened in a page that is open already.
  const hasToken = new URLSearchParams(location.hash.slice(1)).has('token');
  attempt(hasToken ? start : show);
});
addEventListener('tables-changed', listTables);
addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLElement && event.target.matches('input, textarea, select');
  if (event.key === 'Escape') {
    closePanel();
  } else if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    document.getElementById('filter')?.focus();
    event.preventDefault();
  }
});
byId('load-button').addEventListener('click', () => go({ table: '', view: 'load', filter: '', select: '' }));
byId('skip').addEventListener('click', (event) => {
  byId('main').focus();
  event.preventDefault();
});
attempt(start);
