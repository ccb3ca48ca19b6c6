// The parts of a table beside its entities: property indexes, expiry, access policies; and the database's change feeds.

import { Part, isAbort } from './api.js';
import { paint, partsOfJson } from './colours.js';
import { bytes, button, element, form, labelled, number, say, scrolled, shown, tableOf } from './dom.js';
import { iconButton } from './menu.js';
import { confirm, done } from './panel.js';
import { go } from './route.js';
import { field, here, textOf, valueOf } from './values.js';

/** @import { Scope } from './api.js' */

const again = () => go({});

/** A part of a view, with its title and a description. */
function part(/** @type {string} */ title, /** @type {string} */ words, /** @type {import('./dom.js').Child[]} */ ...children) {
  return element('section', { class: 'card part' }, element('h2', {}, title), element('p', { class: 'quiet' }, words), ...children);
}

/** The state of an index: one that is not valid is not used. */
const state = (/** @type {boolean} */ isValid) => element('span', { class: isValid ? 'badge ok' : 'badge slow' },
  isValid ? 'valid' : 'not valid: queries do not use it');

/** @typedef {{property: string, isValid: boolean, bytes: number, scans: number}} Index */
/** @typedef {{property: string | null, timeToLive: string | null, isValid: boolean, oldest: string | null}} Expiry */

/** Property indexes and expiry. */
export async function showDesign(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite) {
  const { table } = scope.route;
  const [indexes, expiries] = /** @type {[Index[], Expiry[]]} */ (await Promise.all(
    [scope.call('query_property_indexes', { table }), scope.call('query_expiry', { table })]));

  const property = element('input', { required: true, spellcheck: 'false', autocomplete: 'off' });
  const statement = element('pre', { hidden: true, tabindex: '0', 'aria-label': 'Statement' });
  main.append(part('Property indexes', indexes.length === 0
    ? 'None. A filter on a property reads all entities of its key ranges.'
    : 'A filter on one of these properties reads what the index names.',
  indexes.length > 0 && scrolled('Property indexes', tableOf(['Property', '#Size', '#Scans', 'State', ''], indexes.map((index) => [
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

/** The permissions that a policy can have. */
const RIGHTS = { r: 'Read', a: 'Add', u: 'Update', d: 'Delete' };

/** @typedef {{Id: string, Start?: string | undefined, Expiry?: string | undefined, Permission?: string | undefined}} Policy */

/** Stored access policies. */
export async function showAccess(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite) {
  const { table } = scope.route;
  /** @type {Policy[]} */
  const policies = await scope.call('get_access_policies', { table });
  const rows = policies.map((policy) => policyRow(policy, canWrite));
  const body = element('div', { class: 'policies' }, ...rows.map(({ made }) => made));
  const given = () => JSON.stringify(rows.map(({ value }) => value()));
  const before = given();
  const save = element('button', { class: 'primary' }, 'Save the policies');
  // Without a change there is nothing to save.
  const tell = () => {
    save.disabled = given() === before;
  };
  const add = (/** @type {ReturnType<typeof policyRow>} */ row) => {
    row.made.addEventListener('input', tell);
    row.made.addEventListener('removed', () => {
      rows.splice(rows.indexOf(row), 1);
      row.made.remove();
      tell();
    });
  };
  rows.forEach(add);
  tell();
  main.append(part('Stored access policies', `${policies.length === 0 ? 'None. ' : ''}A shared access signature can refer to one of at `
    + 'most five policies. Start and expiry are like 2030-01-31T12:00:00Z.', canWrite ? form(async () => {
    await scope.change('set_access_policies', { table, policies: given() });
    say('The policies are set.');
    again();
  }, body, button('Add a policy', () => {
    const row = policyRow({ Id: '' }, true);
    rows.push(row);
    add(row);
    body.append(row.made);
    tell();
    row.made.querySelector('input')?.focus();
  }), save) : body));
}

function policyRow(/** @type {Policy} */ policy, /** @type {boolean} */ canWrite) {
  const label = policy.Id || 'the new policy';
  const name = element('input', { 'aria-label': 'Name', readonly: !canWrite, spellcheck: 'false' });
  name.value = policy.Id;
  const [start, expiry] = [field(policy.Start ?? '', !canWrite), field(policy.Expiry ?? '', !canWrite)];
  const permission = new Set(policy.Permission ?? '');
  const rights = Object.entries(RIGHTS).map(([letter, word]) => {
    const right = element('button', { type: 'button', disabled: !canWrite, 'aria-pressed': String(permission.has(letter)) }, word);
    right.addEventListener('click', () => {
      if (!permission.delete(letter)) {
        permission.add(letter);
      }
      right.setAttribute('aria-pressed', String(permission.has(letter)));
      right.dispatchEvent(new Event('input', { bubbles: true }));
    });
    return right;
  });
  const below = (/** @type {string} */ text, /** @type {HTMLElement} */ made) => element('div', {}, element('small', {}, text), made);
  /** @type {() => Policy} */
  const value = () => ({
    Id: name.value, Start: textOf(start) || undefined, Expiry: textOf(expiry) || undefined,
    Permission: Object.keys(RIGHTS).filter((letter) => permission.has(letter)).join('') || undefined,
  });
  const made = element('div', { class: 'policy', role: 'group', 'aria-label': label }, below('Name', name),
    below('Start', valueOf(start, 'Edm.DateTime', 'Start')), below('Expiry', valueOf(expiry, 'Edm.DateTime', 'Expiry')),
    below('Permission', element('div', { class: 'segments', role: 'group', 'aria-label': 'Permission' }, ...rights)));
  if (canWrite) {
    made.append(iconButton('close', `Remove ${label}`, () => made.dispatchEvent(new Event('removed'))));
  }
  return { made, value };
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

/** The change feeds of the database, and the changes that their readers have not confirmed. */
export async function showChanges(/** @type {HTMLElement} */ main, /** @type {Scope} */ scope, /** @type {boolean} */ canWrite) {
  const { table } = scope.route;
  /** @type {Feed[]} */
  const feeds = await scope.call('query_change_feeds');
  const changes = element('div', { class: 'part' });
  const lookups = new Part(scope.signal);
  const look = (/** @type {Feed} */ { name }) => lookAt(lookups.begin(scope.route), name, changes);
  const feed = element('input', { required: true, spellcheck: 'false', autocomplete: 'off' });
  main.append(part('Change feeds of the database', feeds.length === 0
    ? 'None. A feed keeps the changes of its tables, in the order of commits, until its reader confirms them.'
    : 'A feed keeps changes until its reader confirms them. Looking at them confirms nothing.',
  feeds.length > 0 && scrolled('Change feeds', tableOf(['Feed', 'Tables', '#Retains', 'State', ''], feeds.map((feed) => [
    feed.name, (feed.tables ?? []).join(', '), bytes(feed.retainedBytes ?? 0),
    element('span', { class: feed.walStatus ? 'badge' : 'badge slow' },
      `${feed.walStatus ?? 'its slot is gone'}${feed.isActive ? ', being read' : ''}`),
    element('span', {}, button('Look', () => look(feed), { class: 'ghost', 'aria-label': `Look at the changes of ${feed.name}` }),
      canWrite && button('Drop', async () => dropFeed(await scope.forPanel(), feed), {
        class: 'ghost danger', 'aria-label': `Drop the feed ${feed.name}` }))]))),
  canWrite && form(async () => {
    await scope.change('create_change_feed', { feed: feed.value, table });
    say(`The feed ${feed.value} has the changes of ${table} from now on.`);
    again();
  }, labelled('Name of a feed', feed), element('button', { class: 'primary' }, `Create a feed of ${table}`)), changes),
  part('Earlier versions', 'A feed forgets what its reader has confirmed. If there is an archive, it has the earlier versions of entities:',
    element('pre', {}, `table-service-copy history --from ARCHIVE --table ${table} --filter FILTER`)));
}

/** Shows the changes of a feed. */
async function lookAt(/** @type {Scope} */ scope, /** @type {string} */ feed, /** @type {HTMLElement} */ where) {
  try {
    /** @type {Change[]} */
    const found = await scope.call('query_changes', { feed, top: 100 });
    where.replaceChildren(element('h3', {}, `Changes of ${feed} that are not confirmed`), found.length === 0
      ? element('p', { class: 'quiet' }, 'None.')
      : scrolled(`Changes of ${feed}`, tableOf(['Committed', 'Table', 'Change', 'PartitionKey', 'RowKey', 'Properties'],
        found.map((change) => [
          element('time', { title: change.committed }, change.committed ? here(new Date(change.committed)) : ''),
          change.table ?? '',
          element('span', { class: `badge ${change.kind}` }, change.kind), change.partitionKey ?? '', change.rowKey ?? '',
          cut(change)]))));
  } catch (error) {
    if (!isAbort(error)) {
      where.replaceChildren(shown(error));
    }
  }
}

function dropFeed(/** @type {Scope} */ scope, /** @type {Feed} */ { name, isActive }) {
  confirm(`Drop the feed ${name}`, 'Drop it', 'Keep it', async () => {
    await scope.change('drop_change_feed', { feed: name });
    done(scope, `The feed ${name} is dropped.`);
  }, element('p', {}, `Its reader misses the changes that it has not confirmed${isActive ? ', and it reads them now' : ''}.`));
}
