// Actions on many entities or a whole table.

import { Problem, download } from './api.js';
import { button, element, entitiesText, form, labelled, number, say } from './dom.js';
import { closePanel, confirm, done, openPanel } from './panel.js';
import { go } from './route.js';

/** @import { Scope } from './api.js' */

/** The most entities of one transaction of a delete. */
const STEP = 1000;

const tablesChanged = () => dispatchEvent(new Event('tables-changed'));

export function deleteSelected(/** @type {Scope} */ scope, /** @type {import('./api.js').Entity[]} */ entities) {
  confirm(`Delete ${entitiesText(entities.length)}`, 'Delete them', 'Keep them', async () => {
    const keys = JSON.stringify(entities.map(({ partitionKey, rowKey, etag }) => [partitionKey, rowKey, etag]));
    const { deleted } = await scope.change('delete_entities_by_key', { table: scope.route.table, keys });
    done(scope, `Deleted ${entitiesText(deleted)}.`);
  },
  element('p', {}, 'One transaction deletes them, if nobody has changed any of them.'),
  element('ul', {}, ...entities.slice(0, 10).map((entity) => element('li', {},
    element('bdi', {}, entity.partitionKey), ' · ', element('bdi', {}, entity.rowKey)))),
  entities.length > 10 && element('p', {}, `and ${number(entities.length - 10)} more`));
}

/** Deletes the entities of a filter in steps, after the user has typed their number. */
export async function deleteByFilter(/** @type {Scope} */ scope) {
  const { table, filter } = scope.route;
  /** @type {number | null} */
  let count;
  try {
    ({ count } = await scope.call('count_entities', { table, filter }));
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'OperationTimedOut') {
      throw error;
    }
    count = null;
  }
  const expected = count === null ? table : String(count);
  const typed = element('input', { autocomplete: 'off', spellcheck: 'false', inputmode: count === null ? 'text' : 'numeric' });
  const progress = element('progress', { max: Math.max(count ?? 1, 1), value: 0, 'aria-label': 'Deleted', hidden: true });
  const told = element('p', { role: 'status' });
  const submit = form(async () => {
    if (typed.value.replaceAll(',', '').trim() !== expected) {
      throw new Problem(400, 'InvalidInput', count === null ? 'That is not the name of the table.' : 'That is not their number.');
    }
    await deleteInSteps(scope, count, progress, told);
  },
  element('p', {}, 'Filter ', element('code', {}, filter)),
  element('p', {}, count === null
    ? 'They cannot be counted in 5 seconds. Type the name of the table to delete them.'
    : `It selects ${entitiesText(count)}. Type this number to delete them.`),
  element('p', { class: 'quiet' }, `Each ${number(STEP)} are a transaction. What is deleted when you stop stays deleted.`),
  labelled(count === null ? 'Name of the table' : 'Number of entities', typed),
  progress, told, element('button', { class: 'danger' }, 'Delete'));
  openPanel('Delete by filter', submit);
  typed.focus();
}

async function deleteInSteps(/** @type {Scope} */ scope, /** @type {number | null} */ count, /** @type {HTMLProgressElement} */ progress,
  /** @type {HTMLElement} */ told) {
  const { table, filter } = scope.route;
  let goesOn = true;
  let deleted = 0;
  let token = /** @type {string | null} */ (null);
  progress.hidden = false;
  if (count === null) {
    progress.removeAttribute('value');
  }
  const stop = button('Stop', () => {
    goesOn = false;
  });
  told.after(stop);
  try {
    do {
      const step = await scope.step('delete_entities_step', { table, filter, top: STEP, token });
      deleted += step.deleted;
      token = step.token;
      if (count !== null) {
        progress.value = deleted;
      }
      told.textContent = `Deleted ${number(deleted)}.`;
    } while (token && goesOn && told.isConnected);
  } finally {
    stop.remove();
    tablesChanged();
  }
  say(`Deleted ${entitiesText(deleted)}${token ? ', then stopped' : ''}.`);
  scope.signal.throwIfAborted();
  closePanel();
  go({});
}

/** Asks for the name of the table before all that it has is gone. */
function askForName(/** @type {Scope} */ scope, /** @type {string} */ title, /** @type {string} */ words,
  /** @type {() => Promise<void>} */ action) {
  const { table } = scope.route;
  const typed = element('input', { autocomplete: 'off', spellcheck: 'false' });
  openPanel(title, form(async () => {
    if (typed.value !== table) {
      throw new Problem(400, 'InvalidInput', 'That is not the name of the table.');
    }
    await action();
    tablesChanged();
  }, element('p', {}, words), element('p', {}, 'Type the name of the table, ', element('code', {}, table), '.'),
  labelled('Name of the table', typed), element('button', { class: 'danger' }, title)));
  typed.focus();
}

/** @param {Scope} scope */
export function clearTable(scope) {
  const { table } = scope.route;
  askForName(scope, 'Clear table', 'All entities are deleted. Indexes, access policies and expiry stay.', async () => {
    await scope.change('clear_table', { table });
    say('The table is empty.');
    closePanel();
    go({});
  });
}

/** @param {Scope} scope */
export function dropTable(scope) {
  const { table } = scope.route;
  askForName(scope, 'Drop table', 'The table is deleted, with all entities.', async () => {
    await scope.change('delete_table', { table });
    say(`${table} is deleted.`);
    closePanel();
    go({ table: '', filter: '', select: '' });
  });
}

/** @param {Scope} scope */
export function exportEntities(scope) {
  const { filter } = scope.route;
  const format = element('select', {},
    element('option', { value: 'jsonl' }, 'JSON lines'), element('option', { value: 'csv' }, 'CSV, as Azure Storage Explorer'));
  openPanel('Export', form(async () => {
    await download(scope, format.value);
    say('The browser downloads the file.');
  },
  element('p', {}, filter ? 'What the filter selects: ' : 'All entities.', filter && element('code', {}, filter)),
  element('p', { class: 'quiet' }, 'Both come back exactly by an import here or by table-service-copy. ',
    'CSV is refused if a spreadsheet would execute a text as a formula.'),
  labelled('Format', format), element('button', { class: 'primary' }, 'Export')));
  format.focus();
}
