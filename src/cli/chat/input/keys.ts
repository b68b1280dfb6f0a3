// The one table of key bindings of the line editor. Key names are those of node:readline.
import type { EditAction } from './editor.js';
import type { Key } from '../terminal.js';

export type KeyMeaning =
  | EditAction
  | { do: 'enter' | 'break' | 'interrupt' | 'end' | 'suspend' | 'redraw' | 'complete' | 'older' | 'newer' | 'search' | 'cancel' | 'prefix' | 'paste-start' | 'nothing' };

const nothing: KeyMeaning = { do: 'nothing' };

const controls: Readonly<Record<string, KeyMeaning>> = {
  a: { do: 'move', to: 'line-start' }, e: { do: 'move', to: 'line-end' }, b: { do: 'move', to: 'left' }, f: { do: 'move', to: 'right' },
  k: { do: 'delete', to: 'line-end' }, u: { do: 'delete', to: 'line-start' }, w: { do: 'delete', to: 'word-left' }, y: { do: 'yank' },
  t: { do: 'transpose' }, c: { do: 'interrupt' }, d: { do: 'end' }, z: { do: 'suspend' }, l: { do: 'redraw' }, r: { do: 'search' },
  g: { do: 'cancel' }, x: { do: 'prefix' }, p: { do: 'older' }, n: { do: 'newer' },
  left: { do: 'move', to: 'word-left' }, right: { do: 'move', to: 'word-right' }, home: { do: 'move', to: 'start' }, end: { do: 'move', to: 'end' },
  backspace: { do: 'delete', to: 'word-left' }, delete: { do: 'delete', to: 'word-right' },
};

const metas: Readonly<Record<string, KeyMeaning>> = {
  b: { do: 'move', to: 'word-left' }, f: { do: 'move', to: 'word-right' }, left: { do: 'move', to: 'word-left' }, right: { do: 'move', to: 'word-right' },
  d: { do: 'delete', to: 'word-right' }, backspace: { do: 'delete', to: 'word-left' }, return: { do: 'break' }, enter: { do: 'break' },
};

const plain: Readonly<Record<string, KeyMeaning>> = {
  left: { do: 'move', to: 'left' }, right: { do: 'move', to: 'right' }, up: { do: 'older' }, down: { do: 'newer' },
  home: { do: 'move', to: 'line-start' }, end: { do: 'move', to: 'line-end' }, backspace: { do: 'delete', to: 'left' }, delete: { do: 'delete', to: 'right' },
  return: { do: 'enter' }, enter: { do: 'enter' }, tab: { do: 'complete' }, escape: { do: 'cancel' }, 'paste-start': { do: 'paste-start' },
};

export function meaningOf(text: string | undefined, key: Key): KeyMeaning {
  const name = key.name ?? '';
  if (key.ctrl) return controls[name] ?? nothing;
  if (key.meta) return metas[name] ?? (name === 'escape' ? { do: 'cancel' } : nothing);
  if (Object.hasOwn(plain, name)) return plain[name]!;
  // Other special keys (F1, …) have no text; a lone control character is not text either.
  if (text === undefined || /^[\u0000-\u001f\u007f-\u009f]/.test(text)) return nothing;
  return { do: 'insert', text };
}
