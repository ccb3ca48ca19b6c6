// What belongs to a table beside its entities: property indexes, expiry, access policies; and the change feeds of the database.

import { Part, isAbort } from './api.js';
import { bytes, button, element, form, labelled, number, say, shown } from './dom.js';
import { go } from './route.js';

/** @typedef {import('./api.js').Scope} Scope */

const again = () => go({});

/**
 * A table for people.
 *
 * @param {string} name
 * @param {string[]} head
 * @param {(Node | string)[][]} rows
 */
function list(name, head, rows) {
  return element('div', { class: 'list', tabindex: '0', role: 'region', 'aria-label': name },
    element('table', {},
      element('thead', {}, element('tr', {}, ...head.map((text) => (text ? element('th', { scope: 'col' }, text) : element('td'))))),
      element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((value) => element('td', {},
        typeof value === 'string' ? element('bdi', {}, value) : value)))))));
}

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
  main.append(element('h2', {}, 'Property indexes'),
    indexes.length === 0
      ? element('p', { class: 'quiet' }, 'None. A filter on a property reads all entities of its key ranges.')
      : list('Property indexes', ['Property', 'Size', 'Scans', 'State', ''], indexes.map((index) => [
        index.property, bytes(index.bytes), number(index.scans), index.isValid ? 'valid' : 'not valid: queries do not use it',
        canWrite ? button('Drop', async () => {
          await scope.change('drop_property_index', { table, property: index.property });
          say(`The index on ${index.property} is dropped.`);
          again();
        }, { class: 'ghost danger', 'aria-label': `Drop the index on ${index.property}` }) : ''])));
  if (canWrite) {
    main.append(form(async () => {
      await scope.change('create_property_index', { table, property: property.value });
      say(`There is an index on ${property.value}.`);
      again();
    }, labelled('Property', property), element('button', { class: 'primary' }, 'Create index'),
    button('Show the statement for a large table', async () => {
      const { sql } = await scope.call('property_index_sql', { table, property: property.value });
      statement.textContent = sql;
      statement.hidden = false;
    })), statement);
  }

  main.append(element('h2', {}, 'Expiry'), expiries.length === 0
    ? element('p', { class: 'quiet' }, 'Entities of this table do not expire.')
    : list('Expiry', ['Property', 'Time to live', 'Expires first', 'State'], expiries.map((expiry) => [
      expiry.property ?? '', expiry.timeToLive ?? '', expiry.oldest ?? '', expiry.isValid ? 'valid' : 'not valid'])));
  if (canWrite) {
    const byProperty = element('input', { spellcheck: 'false', autocomplete: 'off' });
    const time = element('input', { placeholder: '30 days', spellcheck: 'false', autocomplete: 'off' });
    main.append(expiries.length === 0
      ? form(async () => {
        await scope.change('set_expiry', { table, property: byProperty.value || null, timeToLive: time.value || null });
        say('Entities expire now.');
        again();
      }, labelled('Property that decides', byProperty), labelled('Time to live', time),
      element('button', {}, 'Set expiry'))
      : button('Drop expiry', async () => {
        await scope.change('drop_expiry', { table });
        say('Entities do not expire any more.');
        again();
      }, { class: 'danger' }));
  }
}

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
  const rows = /** @type {HTMLInputElement[][]} */ ([]);
  const body = element('div', { class: 'policies' });
  const add = (/** @type {Policy} */ policy) => {
    const fields = [
      ['Name', policy.Id], ['Start', policy.Start], ['Expiry', policy.Expiry], ['Permission', policy.Permission],
    ].map(([name, value]) => {
      const field = element('input', { 'aria-label': name, placeholder: name, readonly: !canWrite, spellcheck: 'false' });
      field.value = value ?? '';
      return field;
    });
    rows.push(fields);
    const row = element('div', { class: 'policy' }, ...fields);
    if (canWrite) {
      row.append(button('✕', () => {
        rows.splice(rows.indexOf(fields), 1);
        row.remove();
      }, { 'aria-label': `Remove ${policy.Id || 'the new policy'}` }));
    }
    body.append(row);
    return fields;
  };
  policies.forEach(add);
  main.append(element('h2', {}, 'Stored access policies'),
    element('p', { class: 'quiet' }, policies.length === 0 ? 'None. ' : '', 'A shared access signature can refer to one of at most ',
      'five policies. Start and expiry are like 2030-01-31T12:00:00Z, and the permission has letters of r, a, u and d.'));
  if (!canWrite) {
    main.append(body);
    return;
  }
  main.append(form(async () => {
    const set = rows.map(([id, start, expiry, permission]) => ({
      Id: id?.value, Start: start?.value || undefined, Expiry: expiry?.value || undefined, Permission: permission?.value || undefined,
    }));
    await scope.change('set_access_policies', { table, policies: JSON.stringify(set) });
    say('The policies are set.');
    again();
  }, body, button('Add a policy', () => add({ Id: '' })[0]?.focus()), element('button', { class: 'primary' }, 'Save')));
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
  return [...text].length < (length ?? 0) ? `${text}…` : text;
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
  const changes = element('div', {});
  const part = new Part(scope.signal);
  const look = async (/** @type {string} */ feed) => {
    try {
      /** @type {Change[]} */
      const found = await part.begin(scope.route).call('query_changes', { feed, top: 100 });
      changes.replaceChildren(element('h3', {}, `Changes of ${feed} that are not confirmed`), found.length === 0
        ? element('p', { class: 'quiet' }, 'None.')
        : list(`Changes of ${feed}`, ['Committed', 'Table', 'Change', 'PartitionKey', 'RowKey', 'Properties'], found.map((change) => [
          change.committed ?? '', change.table ?? '', change.kind ?? '', change.partitionKey ?? '', change.rowKey ?? '',
          cut(change)])));
    } catch (error) {
      if (!isAbort(error)) {
        changes.replaceChildren(shown(error));
      }
    }
  };
  main.append(element('h2', {}, 'Change feeds of the database'), feeds.length === 0
    ? element('p', { class: 'quiet' }, 'None. create_change_feed makes one.')
    : list('Change feeds', ['Feed', 'Tables', 'Retains', 'State', ''], feeds.map((feed) => [
      feed.name, (feed.tables ?? []).join(', '), bytes(feed.retainedBytes ?? 0),
      `${feed.walStatus ?? 'its slot is gone'}${feed.isActive ? ', being read' : ''}`,
      button('Look', () => look(feed.name), { 'aria-label': `Look at the changes of ${feed.name}` })])), changes,
  element('p', { class: 'quiet' },
    'A feed forgets what its reader has confirmed. If there is an archive, it has the earlier versions of entities:'),
  element('pre', {}, `table-service-copy history --from ARCHIVE --table ${scope.route.table} --filter FILTER`));
}
