// A write after a change by another user. A property that only they have changed stays theirs, and one that only you
// have changed stays yours. If both have changed it, you choose. Then all is saved, with the ETag of their version.

import { Problem } from './api.js';
import { button, byId, element, number, scrolled } from './dom.js';
import { isSame, payload } from './editor.js';
import { done, guard, openPanel } from './panel.js';

/** @import { Entity, Property, Scope } from './api.js' */
/** @typedef {(current: Entity, properties: Property[]) => void} Edit opens what is stored, with other properties */
/** @typedef {Record<'was' | 'yours' | 'theirs', Property | undefined>} Versions */
/**
 * A property that differs: the side that has changed it, and the side that is kept, null until the user chooses.
 *
 * @typedef {Versions & {name: string, changed: 'yours' | 'theirs' | 'both', kept: 'yours' | 'theirs' | null}} Difference
 */

/** Replaces an entity if it still has its ETag. If not, the versions are shown, and the result is false. */
export async function replaceOr(/** @type {Scope} */ scope, /** @type {Entity} */ base, /** @type {string} */ properties,
  /** @type {Edit} */ edit) {
  const { table } = scope.route;
  const keys = { table, partitionKey: base.partitionKey, rowKey: base.rowKey };
  try {
    await scope.change('replace_entity', { ...keys, properties, etag: base.etag });
    return true;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412 || scope.signal.aborted) {
      throw error;
    }
    const current = await scope.call('get_entity', keys);
    const mine = (await scope.call('read_properties', { properties })).properties;
    new Conflict(scope, error, current, differences(base.properties, mine, current.properties), edit).show();
    return false;
  }
}

/** @returns {Difference[]} */
function differences(/** @type {Property[]} */ base, /** @type {Property[]} */ mine, /** @type {Property[]} */ theirs) {
  const [before, own, other] = /** @type {[Map<string, Property>, Map<string, Property>, Map<string, Property>]} */ (
    [base, mine, theirs].map((list) => new Map(list.map((property) => [property[0], property]))));
  return [...new Set([...before.keys(), ...own.keys(), ...other.keys()])].sort().flatMap((name) => {
    const [was, yours, theirs] = [before.get(name), own.get(name), other.get(name)];
    const changed = isSame(was, yours) ? 'theirs' : isSame(was, theirs) ? 'yours' : 'both';
    return isSame(yours, theirs) ? [] : [{ name, was, yours, theirs, changed, kept: changed === 'both' ? null : changed }];
  });
}

class Conflict {
  constructor(/** @type {Scope} */ scope, /** @type {Problem} */ problem, /** @type {Entity} */ current,
    /** @type {Difference[]} */ differences, /** @type {Edit} */ edit) {
    this.scope = scope;
    this.problem = problem;
    this.current = current;
    this.differences = differences;
    this.edit = edit;
    this.button = button('', () => this.save(), { class: 'primary' });
  }

  /** The stored properties, with yours that are kept. A property without a choice is yours. */
  get properties() {
    const yours = this.differences.filter(({ kept }) => kept !== 'theirs');
    const rest = this.current.properties.filter(([name]) => !yours.some((one) => one.name === name));
    return [...rest, ...yours.flatMap(({ yours }) => (yours ? [yours] : []))].sort((a, b) => (a[0] < b[0] ? -1 : 1));
  }

  show() {
    const { current, differences } = this;
    const count = (/** @type {Difference['changed']} */ who) => differences.filter(({ changed }) => changed === who).length;
    const hasYours = count('yours') + count('both') > 0;
    const words = !hasYours ? 'Nothing that you have changed differs from what is stored now.'
      : count('both') === 0 ? 'You and they have changed different properties. Both changes are kept.'
        : 'You and they have changed the same property. Choose what is kept. All other changes are kept.';
    const head = ['Property', 'Is kept', ''].map((text) => (text ? element('th', { scope: 'col' }, text) : element('td', {})));
    openPanel('Somebody else has changed the entity',
      element('p', {}, element('strong', {}, `${this.problem.code}: `), this.problem.message),
      element('p', { class: 'quiet' }, words),
      differences.length > 0 && scrolled('The versions', element('table', { class: 'versions' },
        element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, ...differences.map((one) => this.row(one))))),
      element('p', { class: 'quiet' }, `Theirs was stored at ${current.timestamp}.`),
      element('div', { class: 'tools actions' },
        hasYours && this.button,
        hasYours && button('Edit yours', () => this.edit(current, this.properties)),
        button(hasYours ? 'Discard yours' : 'Show what is stored', () => this.edit(current, current.properties),
          { class: hasYours ? 'danger' : 'primary' })));
    this.tell();
    if (hasYours) {
      guard(() => !this.scope.signal.aborted && byId('panel').querySelector('.versions') !== null);
    }
  }

  /** Names the action of the button. */
  tell() {
    const open = this.differences.filter(({ kept }) => kept === null).length;
    const yours = this.differences.filter(({ kept }) => kept === 'yours').length;
    this.button.disabled = open > 0;
    this.button.textContent = open > 0 ? `Choose ${open === 1 ? 'one version' : `${open} versions`} first`
      : yours === 0 ? 'Keep what is stored' : `Save ${yours === 1 ? 'your change' : `your ${number(yours)} changes`}`;
  }

  async save() {
    const isTheirs = this.differences.every(({ kept }) => kept === 'theirs');
    if (isTheirs) {
      done(this.scope, 'Nothing was written.');
    } else if (await replaceOr(this.scope, this.current, payload(this.properties), this.edit)) {
      done(this.scope, 'Saved.');
    }
  }

  row(/** @type {Difference} */ difference) {
    const { name, was, yours, theirs, changed } = difference;
    const all = [was, yours, theirs].map((property) => property?.[2] ?? '');
    const choice = (/** @type {'yours' | 'theirs'} */ side) => {
      const radio = element('input', { type: 'radio', name: `kept-${name}`, onchange: () => {
        difference.kept = side;
        this.tell();
      } });
      return element('label', { class: 'inline' }, radio, element('small', {}, side), value(difference[side], all));
    };
    const kept = changed === 'both'
      ? element('div', { role: 'radiogroup', 'aria-label': name }, choice('yours'), choice('theirs'),
        element('p', { class: 'quiet' }, element('small', {}, 'it was'), value(was, all)))
      : element('div', { class: 'change' },
        element('del', {}, value(was, all)), ' → ', element('ins', {}, value(difference[changed], all)));
    return element('tr', { class: changed },
      element('th', { scope: 'row' }, element('bdi', {}, name), changed === 'both' && element('small', {}, 'both changed it')),
      element('td', { colspan: changed === 'both' ? 2 : 1 }, kept),
      changed !== 'both' && element('td', {}, element('span', { class: 'badge' }, changed)));
  }
}

/** The longest value of a conflict that is shown whole, and the length before the first difference of a longer one. */
const [WHOLE, BEFORE] = [160, 40];

/** A value beside its other versions. A long one is shown around its first difference, and whole on request. */
function value(/** @type {Property | undefined} */ property, /** @type {string[]} */ all) {
  if (!property) {
    return element('span', { class: 'empty' }, '(absent)');
  }
  const [, type, text] = property;
  const kind = element('small', {}, type.slice(4));
  if (text.length <= WHOLE) {
    return element('span', {}, element('bdi', {}, text), ' ', kind);
  }
  const differs = (/** @type {string} */ other) => {
    let place = 0;
    while (place < text.length && text[place] === other[place]) {
      place += 1;
    }
    return place;
  };
  const from = Math.max(0, Math.min(text.length - WHOLE, ...all.map(differs)) - BEFORE);
  const part = text.slice(from, from + WHOLE);
  return element('details', {},
    element('summary', {}, element('bdi', {}, `${from > 0 ? '…' : ''}${part}${from + WHOLE < text.length ? '…' : ''}`),
      ' ', element('small', {}, `${type.slice(4)}, ${number(text.length)} characters`)),
    element('bdi', {}, text));
}
