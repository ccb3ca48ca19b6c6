// What belongs to a table beside its entities: property indexes, expiry, access policies; and the change feeds of the database.

import { Part, isAbort } from './api.js';
import { paint, partsOfJson } from './colours.js';
import { bytes, button, element, form, labelled, number, say, scrolled, shown, tableOf } from './dom.js';
import { iconButton } from './menu.js';
import { go } from './route.js';
import { field, here, textOf, valueOf } from './values.js';

/** @typedef {import('./api.js').Scope} Scope */

const again = () => go({});

/**
 * A part of a view, with what it is about.
 *
 * @param {string} title
 * @param {string} words
 * @param {...import('./dom.js').Child} children
 */
function part(title, words, ...children) {
  return element('section', { class: 'card part' }, element('h2', {}, title), element('p', { class: 'quiet' }, words), ...children);
}

/** The state of an index: one that is not valid is not used. */
const state = (/** @type {boolean} */ isValid) => element('span', { class: isValid ? 'badge ok' : 'badge slow' },
  isValid ? 'valid' : 'not valid: queries do not use it');

/** @typedef {{property: string, isValid: boolean, bytes: number, scans: number}} Index */
/** @typedef {{property: string | null, timeToLive: string | null, isValid: boolean, oldest: string | null}} Expiry */

/**
 * Property indexes and expiry.
 *
 * @param {HTMLElement} main
 * @param {Scope} scope
 * @param {boolean} canWrite
 */
export async function showDesign(main, scope, canWrite) {
  const { table } = scope.route;
  const [indexes, expiries] = /** @type {[Index[], Expiry[]]} */ (await Promise.all(
    [scope.call('query_property_indexes', { table }), scope.call('query_expiry', { table })]));

  const property = element('input', { required: true, spellcheck: 'false', autocomplete: 'off' });
  const statement = element('pre', { hidden: true, tabindex: '0', 'aria-label': 'Statement' });
  main.append(part('Property indexes', indexes.length === 0
    ? 'None. A filter on a property reads all entities of its key ranges.'
    : 'A filter on one of these properties reads what the index names.',
  indexes.length > 0 && scrolled('Property indexes', tableOf(['Property', 'Size', 'Scans', 'State', ''], indexes.map((index) => [
    index.property, bytes(index.bytes), number(index.scans), state(index.isValid),
    canWrite ? button('Drop', async () => {
      await scope.change('drop_property_index', { table, property: index.property });
      say(`The index on ${index.property} is dropped.`);
      again();
    }, { class: 'ghost danger', 'aria-label': `Drop the index on ${index.property}` }) : '']))),
  canWrite && form(async () => {
    await scope.change('create_property_index', { table, property: property.value });
    say(`There is an index on ${property.value}.`);
    again();
  }, labelled('Property', property), element('button', { class: 'primary' }, 'Create index'),
  button('Show the statement for a large table', async () => {
    const { sql } = await scope.call('property_index_sql', { table, property: property.value });
    statement.textContent = sql;
    statement.hidden = false;
  }, { class: 'ghost' })), statement));

  const byProperty = element('input', { spellcheck: 'false', autocomplete: 'off' });
  const time = element('input', { placeholder: '30 days', spellcheck: 'false', autocomplete: 'off' });
  main.append(part('Expiry', expiries.length === 0
    ? 'Entities of this table do not expire.'
    : 'An entity whose time has come is gone for all reads, and is deleted later.',
  expiries.length > 0 && scrolled('Expiry', tableOf(['Property', 'Time to live', 'Expires first', 'State'], expiries.map((expiry) => [
    expiry.property ?? '', expiry.timeToLive ?? '', expiry.oldest ?? '', state(expiry.isValid)]))),
  canWrite && (expiries.length === 0
    ? form(async () => {
      await scope.change('set_expiry', { table, property: byProperty.value || null, timeToLive: time.value || null });
      say('Entities expire now.');
      again();
    }, labelled('Property that decides', byProperty), labelled('Time to live', time), element('button', {}, 'Set expiry'))
    : element('div', { class: 'tools' }, button('Drop expiry', async () => {
      await scope.change('drop_expiry', { table });
      say('Entities do not expire any more.');
      again();
    }, { class: 'danger' })))));
}

/** What a policy can permit. */
const RIGHTS = { r: 'Read', a: 'Add', u: 'Update', d: 'Delete' };

/** @typedef {{Id: string, Start?: string, Expiry?: string, Permission?: string}} Policy */

/**
 * Stored access policies.
 *
 * @param {HTMLElement} main
 * @param {Scope} scope
 * @param {boolean} canWrite
 */
export async function showAccess(main, scope, canWrite) {
  const { table } = scope.route;
  /** @type {Policy[]} */
  const policies = await scope.call('get_access_policies', { table });
  /** @type {(() => Record<keyof Policy, string | undefined>)[]} */
  const rows = [];
  const body = element('div', { class: 'policies' });
  const add = (/** @type {Policy} */ policy) => {
    const name = element('input', { 'aria-label': 'Name', placeholder: 'Name', readonly: !canWrite, spellcheck: 'false' });
    name.value = policy.Id;
    const [start, expiry] = [['Start', policy.Start], ['Expiry', policy.Expiry]].map(([placeholder = '', text = '']) => (
      Object.assign(field(text, !canWrite), { placeholder })));
    const permission = new Set(policy.Permission ?? '');
    const rights = Object.entries(RIGHTS).map(([letter, word]) => {
      const right = element('button', { type: 'button', disabled: !canWrite, 'aria-pressed': String(permission.has(letter)) }, word);
      right.addEventListener('click', () => {
        if (!permission.delete(letter)) {
          permission.add(letter);
        }
        right.setAttribute('aria-pressed', String(permission.has(letter)));
      });
      return right;
    });
    const order = (/** @type {string} */ letter) => Object.keys(RIGHTS).indexOf(letter);
    const value = () => ({
      Id: name.value, Start: (start && textOf(start)) || undefined, Expiry: (expiry && textOf(expiry)) || undefined,
      Permission: [...permission].sort((a, b) => order(a) - order(b)).join('') || undefined,
    });
    rows.push(value);
    const row = element('div', { class: 'policy', role: 'group', 'aria-label': policy.Id || 'The new policy' }, name,
      start && valueOf(start, 'Edm.DateTime', 'Start'), expiry && valueOf(expiry, 'Edm.DateTime', 'Expiry'),
      element('div', { class: 'segments', role: 'group', 'aria-label': 'Permission' }, ...rights),
      canWrite && iconButton('close', `Remove ${policy.Id || 'the new policy'}`, () => {
        rows.splice(rows.indexOf(value), 1);
        row.remove();
      }));
    body.append(row);
    return name;
  };
  policies.forEach(add);
  const heads = element('div', { class: 'policy heads', 'aria-hidden': 'true' },
    ...['Name', 'Start', 'Expiry', 'Permission'].map((text) => element('small', {}, text)));
  main.append(part('Stored access policies', `${policies.length === 0 ? 'None. ' : ''}A shared access signature can refer to one of at `
    + 'most five policies. Start and expiry are like 2030-01-31T12:00:00Z.', policies.length > 0 && heads, canWrite ? form(async () => {
    await scope.change('set_access_policies', { table, policies: JSON.stringify(rows.map((value) => value())) });
    say('The policies are set.');
    again();
  }, body, button('Add a policy', () => add({ Id: '' }).focus()), element('button', { class: 'primary' }, 'Save')) : body));
}

/** @typedef {{name: string, tables: string[] | null, isActive: boolean, walStatus: string | null, retainedBytes: number | null}} Feed */
/**
 * Its properties are cut, and the length is that of the whole.
 *
 * @typedef {Record<'committed' | 'table' | 'kind' | 'partitionKey' | 'rowKey' | 'properties', string | null>
 *   & {length: number | null}} Change
 */

/** The properties of a change, with a sign where they are cut. */
function cut(/** @type {Change} */ { properties, length }) {
  const text = properties ?? '';
  const made = element('code', {});
  paint(made, [...text].length < (length ?? 0) ? `${text}…` : text, partsOfJson(text));
  return made;
}

/**
 * The change feeds of the database, and the changes that their readers have not confirmed.
 *
 * @param {HTMLElement} main
 * @param {Scope} scope
 */
export async function showChanges(main, scope) {
  /** @type {Feed[]} */
  const feeds = await scope.call('query_change_feeds');
  const changes = element('div', { class: 'part' });
  const lookups = new Part(scope.signal);
  const look = async (/** @type {string} */ feed) => {
    try {
      /** @type {Change[]} */
      const found = await lookups.begin(scope.route).call('query_changes', { feed, top: 100 });
      changes.replaceChildren(element('h3', {}, `Changes of ${feed} that are not confirmed`), found.length === 0
        ? element('p', { class: 'quiet' }, 'None.')
        : scrolled(`Changes of ${feed}`, tableOf(['Committed', 'Table', 'Change', 'PartitionKey', 'RowKey', 'Properties'],
          found.map((change) => [
            element('time', { title: change.committed }, change.committed ? here(new Date(change.committed)) : ''),
            change.table ?? '',
            element('span', { class: `badge ${change.kind}` }, change.kind), change.partitionKey ?? '', change.rowKey ?? '',
            cut(change)]))));
    } catch (error) {
      if (!isAbort(error)) {
        changes.replaceChildren(shown(error));
      }
    }
  };
  main.append(part('Change feeds of the database', feeds.length === 0
    ? 'None. create_change_feed makes one.' : 'A feed keeps changes until its reader confirms them. Looking at them confirms nothing.',
  feeds.length > 0 && scrolled('Change feeds', tableOf(['Feed', 'Tables', 'Retains', 'State', ''], feeds.map((feed) => [
    feed.name, (feed.tables ?? []).join(', '), bytes(feed.retainedBytes ?? 0),
    element('span', { class: feed.walStatus ? 'badge' : 'badge slow' },
      `${feed.walStatus ?? 'its slot is gone'}${feed.isActive ? ', being read' : ''}`),
    button('Look', () => look(feed.name), { class: 'ghost', 'aria-label': `Look at the changes of ${feed.name}` })]))), changes),
  part('Earlier versions', 'A feed forgets what its reader has confirmed. If there is an archive, it has the earlier versions of entities:',
    element('pre', {}, `table-service-copy history --from ARCHIVE --table ${scope.route.table} --filter FILTER`)));
}
