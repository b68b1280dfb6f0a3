// `recua help [command]`: written from the table, so it can't be out of date.
import type { AnyCommand } from './command.js';
import { command } from './command.js';
import type { Flag } from './flags.js';
import { misuse } from './flags.js';
import { nearest } from '../models/nearest.js';
import { print } from './output.js';

/** `help` needs the table it is in, so it is made from the other commands. */
export function makeHelp(others: readonly AnyCommand[]): AnyCommand {
  const help = command({
    name: 'help',
    aliases: ['--help', '-h'],
    operands: '[command]',
    summary: 'Explain Recua or one of its commands',
    details: '',
    flags: {},
    async run({ operands }) {
      const all = [...others, help];
      const [name] = operands;
      await print(name === undefined ? overview(all) : commandHelp(findCommand(all, name)));
      return 0;
    },
  });
  return help;
}

/** A command by its name or another way to call it. */
export function findCommand(all: readonly AnyCommand[], name: string): AnyCommand {
  const found = all.find((one) => one.name === name || one.aliases.includes(name));
  if (found) return found;
  const near = nearest(name, all.flatMap((one) => [one.name, ...one.aliases]));
  throw misuse(`There is no command ${name}.${near ? ` Did you mean ${near}?` : ''} All of them: recua help`);
}

function overview(all: readonly AnyCommand[]): string {
  return `${[
    'Recua serves GGUF models from this machine: an OpenAI-compatible HTTP API and a command line.',
    '',
    'Usage: recua <command> [arguments] [flags]',
    '',
    'Commands',
    ...columns(all.map((one) => [`${one.name} ${one.operands}`.trim(), `${one.summary}${others(one)}`])),
    '',
    'A model is the path of a GGUF file, or builtin for the small embedded one.',
    'Flags of a command: recua help <command>',
    '',
    'Try: recua run builtin -p "Hello"',
  ].join('\n')}\n`;
}

function others(one: AnyCommand): string {
  return one.aliases.length > 0 ? ` (also ${one.aliases.join(', ')})` : '';
}

export function commandHelp(one: AnyCommand): string {
  const flags = Object.values(one.flags);
  return `${[
    `Usage: recua ${one.name}${one.operands ? ` ${one.operands}` : ''}${flags.length > 0 ? ' [flags]' : ''}`,
    '',
    `${one.summary}.`,
    ...(one.details === '' ? [] : [one.details]),
    ...(flags.length === 0 ? [] : ['', 'Flags', ...columns(flags.map(flagRow))]),
  ].join('\n')}\n`;
}

function flagRow(flag: Flag<unknown>): [string, string] {
  const names = [...flag.names].sort((a, b) => Number(a.startsWith('--')) - Number(b.startsWith('--'))).join(', ');
  const value = flag.value === '' ? '' : ` <${flag.value}>`;
  const { fallback } = flag;
  const shown = flag.value !== '' && (typeof fallback === 'number' || (typeof fallback === 'string' && fallback !== ''));
  return [`${names}${value}`, `${flag.help}${shown ? ` (default ${fallback})` : ''}`];
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.min(34, Math.max(...rows.map(([left]) => left.length)));
  return rows.flatMap(([left, right]) => (left.length > width
    ? [`  ${left}`, `  ${' '.repeat(width)}  ${right}`]
    : [`  ${left.padEnd(width)}  ${right}`]));
}
