// Reads settings by name from an object that a program passes, with the types and ranges of the
// tables in settings/. Called by the library.
import type { Setting, Settings, ValuesOf } from '../settings/kinds.js';
import type { Fields } from './fields.js';

/** The settings of the table that the object has. */
export function readSettings<T extends Settings>(fields: Fields, table: T): Partial<ValuesOf<T>> {
  const given = Object.entries(table)
    .map(([key, setting]) => [key, read(fields, key, setting)] as const)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Partial<ValuesOf<T>>;
}

function read(fields: Fields, key: string, setting: Setting): unknown {
  switch (setting.kind) {
    case 'integer': {
      const word = fields.get(key);
      // Words that stand for numbers are for command-line flags; here a program passes the number.
      if (typeof word === 'string' && setting.words?.[word] === word) return word;
      return fields.integer(key, setting);
    }
    case 'number': return fields.number(key, setting);
    case 'text': return fields.string(key);
    case 'choice': return fields.word(key, setting.choices);
    case 'switch': return fields.boolean(key);
  }
}
