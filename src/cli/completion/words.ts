// The table in the form that shells need: what may follow each command path, and what values a flag
// takes.
import type { AnyCommand } from '../command.js';
import { allPlaces } from '../command-tree.js';
import type { Flag } from '../flags/flags.js';

/**
 * `words`: one of these. `file`: a file name. `model`: a file name, or a model in the store.
 * `session`: the name of a saved chat. `other`: unknown.
 */
export type Value = { kind: 'none' | 'file' | 'model' | 'session' | 'other' } | { kind: 'words'; words: readonly string[] };

export interface CompletedFlag {
  names: readonly string[];
  help: string;
  value: Value;
}

export interface CompletedCommand {
  /** '' is recua itself. */
  path: string;
  inner: readonly { name: string; summary: string }[];
  flags: readonly CompletedFlag[];
  operand: Value;
}

export function completionTree(all: readonly AnyCommand[]): CompletedCommand[] {
  const none = { flags: [], operand: { kind: 'none' } } as const;
  const root: CompletedCommand = { path: '', inner: rows(all), ...none };
  const named = allPlaces(all).flatMap(({ command, path }) => namesOf(command, path).map((name) => ({ command, name })));
  // After these, too, come the names of commands.
  const about = ['help', 'config'].flatMap((first) => named.map(({ command, name }): CompletedCommand => ({ path: `${first} ${name}`, inner: rows(command.subcommands ?? []), ...none })));
  return [root, ...about, ...named.map(({ command, name }): CompletedCommand => ({
    path: name,
    inner: innerOf(command, name, all),
    flags: [...Object.values(command.flags).map(completed), ...(command.subcommands ? [] : [{ names: ['--help'], help: 'Explain this command', value: { kind: 'none' } as const }])],
    operand: operandOf(command),
  }))];
}

function innerOf({ subcommands }: AnyCommand, path: string, all: readonly AnyCommand[]): CompletedCommand['inner'] {
  if (path === 'help') return rows(all);
  if (path === 'config') return [...rows(all), { name: 'path', summary: 'Show where the config file is' }];
  return subcommands ? [...rows(subcommands), { name: 'help', summary: 'Explain these commands' }] : [];
}

/** A command is completed alike under each of its names. */
function namesOf({ name, aliases }: AnyCommand, path: string): string[] {
  return [path, ...aliases.filter((alias) => !alias.startsWith('-')).map((alias) => path.slice(0, -name.length) + alias)];
}

function rows(all: readonly AnyCommand[]): { name: string; summary: string }[] {
  return all.flatMap(({ name, aliases, summary }) => [name, ...aliases.filter((alias) => !alias.startsWith('-'))].map((word) => ({ name: word, summary })));
}

function completed(flag: Flag<unknown>): CompletedFlag {
  return { names: flag.names, help: flag.help, value: valueOf(flag) };
}

function valueOf({ value, choices }: Flag<unknown>): Value {
  if (value === '') return { kind: 'none' };
  if (choices) return { kind: 'words', words: choices };
  if (/\b(file|path|folder)\b/i.test(value)) return { kind: 'file' };
  return { kind: value === 'model' || value === 'session' ? value : 'other' };
}

/** Derived from the operand's name in help: `<model>`, `<session>`, `<file>`, `[ls | clear]`. */
function operandOf({ operands }: AnyCommand): Value {
  const choice = /^[<[]?([a-z0-9-]+(?: ?\| ?[a-z0-9-]+)+)/.exec(operands)?.[1];
  if (choice !== undefined) return { kind: 'words', words: choice.split(/ ?\| ?/) };
  if (/model/.test(operands)) return { kind: 'model' };
  const first = /[<[]([^>\]]+)[>\]]/.exec(operands)?.[1] ?? '';
  if (/file|path|folder/.test(first)) return { kind: 'file' };
  if (first === 'session') return { kind: first };
  return { kind: first === '' || first === 'command' ? 'none' : 'other' };
}
