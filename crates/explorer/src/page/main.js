// The explorer. It shows the view of one route at a time (route.js): the entities of a table, its design, its access policies, the
// changes of its database, or the load of the gateway.

import { Part, Problem, awaySince, isAbort, loaded, panel, pause, takeToken } from './api.js';
import { attempt, byId, element, say, shown } from './dom.js';
import { showEntities } from './entities.js';
import { icon } from './icons.js';
import { closePanel } from './panel.js';
import { address, go, route } from './route.js';
import { markTable, showTables } from './tables.js';

/** @import { Scope } from './api.js' */

/**
 * The views of a table: the name in the address, that of the tab, its end in a wide window, and the function that shows
 * it. That of entities is loaded at once, and the others after it.
 *
 * @type {[name: string, tab: string, more: string, show: () => Promise<(main: HTMLElement, scope: Scope, canWrite: boolean) => unknown>][]}
 */
const VIEWS = [
  ['entities', 'Entities', '', async () => showEntities],
  ['partitions', 'Partitions', '', async () => (await import('./partitions.js')).showPartitions],
  ['design', 'Indexes', ' and expiry', async () => (await import('./design.js')).showDesign],
  ['access', 'Access', ' policies', async () => (await import('./design.js')).showAccess],
  ['changes', 'Changes', '', async () => (await import('./design.js')).showChanges],
];
const home = async () => (await import('./home.js')).showHome;
const load = async () => (await import('./plots.js')).showLoad;
const showKeys = async () => (await loaded(import('./keys.js'))).showKeys();

const view = new Part();
const list = new Part();
/** @type {{accounts: string[], canWrite: boolean} | null} */
let known = null;
/** The account whose tables are listed. */
let listed = '';
/** The address of the shown view. */
let place = '';
/** Account, table and view of the last route. */
let seen = '';

/** Shows the view that the address names. */
async function show() {
  const focused = document.activeElement;
  if (takeToken()) {
    known = null;
    listed = '';
    byId('view').replaceChildren();
  }
  if (panel.isGuarded) {
    // The address stays that of the shown view, until its changes are discarded.
    const next = route();
    history.replaceState(null, '', place);
    /** @type {HTMLSelectElement} */ (byId('account')).value = route().account;
    if (await closePanel()) {
      go(next);
    }
    return;
  }
  closePanel();
  place = location.hash || '#';
  const scope = view.begin(route());
  panel.leave();
  foldTables();
  markTable(byId('tables'));
  try {
    await showRoute(scope);
  } catch (error) {
    if (!isAbort(error)) {
      const isOther = error instanceof Problem && error.code === 'OtherVersion';
      byId('view').prepend(shown(error, () => (isOther ? location.reload() : go(scope.route))));
    }
  }
  if (!scope.signal.aborted) {
    restoreFocus(focused);
  }
}

/** Focuses the cell or the element with the same id or label as a replaced one, or else the view. A replaced element loses the focus. */
function restoreFocus(/** @type {Element | null} */ old) {
  if (old === null || old === document.body || document.activeElement !== document.body) {
    return;
  }
  const label = old.getAttribute('aria-label');
  const next = old.closest('.grid') ? document.querySelector('main .grid [tabindex="0"]')
    : old.id ? document.getElementById(old.id) : label && document.querySelector(`main [aria-label=${CSS.escape(label)}]`);
  (next instanceof HTMLElement ? next : byId('main')).focus();
}

/** @param {Scope} scope */
async function showRoute(scope) {
  const { account, table, view, filter } = scope.route;
  if (known === null) {
    const found = await scope.hello();
    if (found.script !== new URL(import.meta.url).pathname) {
      // Another gateway has been started while the page was open.
      throw new Problem(0, 'OtherVersion', 'This page is of another version than the gateway.', 'Load the page again.');
    }
    known = found;
    showAccounts(known);
  }
  const { accounts, canWrite } = known;
  const [first] = accounts;
  if (first !== undefined && account === '') {
    history.replaceState(null, '', address({ ...scope.route, account: first }));
    await show();
    return;
  }
  /** @type {HTMLSelectElement} */ (byId('account')).value = account;
  document.title = table && view !== 'load' ? `${table} – Explorer` : 'Explorer';
  if (!accounts.includes(account)) {
    list.leave();
    listed = '';
    byId('tables').replaceChildren();
    byId('title').textContent = 'Tables';
    byId('tabs').hidden = true;
    byId('view').replaceChildren();
    throw new Problem(404, 'ResourceNotFound', `There is no account ${account} here.`, 'Choose one at the top of the page.');
  }
  const isListed = listed === account;
  if (!isListed) {
    byId('tables').replaceChildren();
  }
  const here = [account, table, view].join(' ');
  say(here === seen ? byId('status').textContent ?? '' : '');
  seen = here;
  const next = element('div', { class: 'view' });
  const tabs = byId('tabs');
  tabs.hidden = view === 'load' || !table;
  byId('title').textContent = view === 'load' ? 'Load' : table || 'Tables';
  byId('view').replaceChildren(next);
  const [, , , ofTable = load] = VIEWS.find(([name]) => name === view) ?? VIEWS[0] ?? [];
  const showView = await loaded((view === 'load' ? load : table ? ofTable : home)());
  scope.signal.throwIfAborted();
  tabs.replaceChildren(...VIEWS.map(([name, text, more]) => element('a', {
    href: address({ view: name, filter }), 'aria-current': name === view ? 'page' : null,
  }, text, more && element('span', {}, more))));
  const isShown = showView(next, scope, canWrite);
  if (!isListed) {
    // The rows come first, unless they take long.
    const rows = table && view === 'entities' ? Promise.race([isShown, later()]) : null;
    Promise.allSettled([rows]).then(() => {
      if (listed !== account && !scope.signal.aborted) {
        listTables();
      }
    });
  }
  await isShown;
}

/** When the rest of the page is loaded, at the latest. */
const later = () => pause(500);

/** Loads the rest, so that it is there when the user asks for it. */
function loadRest() {
  const views = [home, load, ...VIEWS.map(([, , , show]) => show)].map((show) => show());
  // Another import of a missing file gets the error.
  Promise.allSettled([import('./edits.js'), import('./keys.js'), ...views]);
}

/** @param {{accounts: string[], canWrite: boolean}} known */
function showAccounts({ accounts, canWrite }) {
  byId('mode').textContent = canWrite ? '' : 'read only';
  const choice = /** @type {HTMLSelectElement} */ (byId('account'));
  choice.replaceChildren(...accounts.map((name) => element('option', {}, name)));
  choice.onchange = () => go({ account: choice.value, table: '', view: 'entities', filter: '', select: '' });
}

/** Lists the tables of the account, or says why it cannot. */
async function listTables() {
  const scope = list.begin(route());
  listed = scope.route.account;
  const tables = byId('tables');
  try {
    await showTables(tables, scope, known?.canWrite ?? false);
  } catch (error) {
    if (!isAbort(error)) {
      listed = '';
      tables.replaceChildren(element('h2', {}, 'Tables'), shown(error, () => go(scope.route)));
    }
  }
}

/** How often a gateway that is away is asked whether it is back, in milliseconds. */
const AGAIN = 2000;
const waiting = new Part();

/** Says that the gateway is away, and asks until it is back. Its earlier answers stay. */
async function waitForGateway() {
  const words = byId('away');
  document.body.classList.toggle('away', awaySince !== null);
  words.hidden = awaySince === null;
  words.textContent = awaySince
    && `No answer from the gateway since ${awaySince.toTimeString().slice(0, 8)}. What you see was read before.`;
  const scope = waiting.begin(route());
  while (awaySince) {
    await pause(AGAIN);
    await scope.hello().catch(() => {});
  }
  if (!scope.signal.aborted && byId('panel').hidden) {
    // It may be another one.
    known = null;
    listed = '';
    go(route());
  }
}

/** Shows the tables where a small window leaves them out, or leaves them out again. */
function foldTables(isShown = false) {
  document.body.classList.toggle('with-tables', isShown);
  byId('tables-button').setAttribute('aria-expanded', String(isShown));
}

byId('tables-button').append(icon('menu'));
byId('tables-button').addEventListener('click', () => {
  const isShown = !document.body.classList.contains('with-tables');
  foldTables(isShown);
  if (isShown) {
    byId('tables').querySelector('input')?.focus();
  }
});
byId('main').addEventListener('pointerdown', () => foldTables());
addEventListener('hashchange', () => attempt(show));
addEventListener('tables-changed', listTables);
addEventListener('gateway-away', waitForGateway);
byId('keys-button').addEventListener('click', showKeys);
addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLElement && event.target.matches('input, textarea, select');
  // In an input method, Escape ends only the composition.
  if (event.key === 'Escape' && !event.isComposing) {
    if (document.body.classList.contains('with-tables')) {
      foldTables();
      byId('tables-button').focus();
    } else {
      closePanel();
    }
  } else if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    document.getElementById('filter')?.focus();
    event.preventDefault();
  } else if (event.key === '?' && !isTyping) {
    showKeys();
  }
});
byId('load-button').prepend(icon('chart'));
byId('home').addEventListener('click', (event) => {
  event.preventDefault();
  go({ table: '', view: 'entities', filter: '', select: '' });
});
byId('load-button').addEventListener('click', () => go({ table: '', view: 'load', filter: '', select: '' }));
byId('skip').addEventListener('click', (event) => {
  byId('main').focus();
  event.preventDefault();
});
attempt(show);
later().then(loadRest);
