// `recua help [command]`: generated from the table of commands, so it is never out of date. On a
// terminal the text is wrapped to the terminal's width.
import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';
import type { AnyCommand } from './command.js';
import type { Place } from './command-tree.js';
import { exitCodes, otherVariables } from './flags/environment.js';
import type { Flag } from './flags/flags.js';
import { describesDefault, shownVariable } from './flags/flags.js';
import { groupsOf } from './flags/groups.js';
import type { FlagGroup } from './flags/groups.js';
import { stdoutColumns } from './markdown/screen.js';

/** Takes the table as a parameter: `help` is itself an entry of it. */
export function overview(all: readonly AnyCommand[], width = terminalWidth()): string {
  return lines([
    ...wrapped('Recua serves GGUF models from this machine: an OpenAI-compatible HTTP API and a command line.', width),
    '',
    'Usage: recua <command> [arguments] [flags]',
    '',
    'Commands',
    ...columns(all.map((one) => [`${one.name} ${one.operands}`.trim(), `${one.summary}${others(one)}`]), width),
    '',
    ...wrapped('A model is the path of a GGUF file, a name from recua list (an alias, owner/repo, owner/repo:Q4_K_M), the name of a file in the store, or builtin, the small built-in model. An existing file takes precedence over any name but builtin. The store is the Hugging Face cache on this machine, with Recua\'s aliases: see recua list.', width),
    'For the flags of a command: recua help <command>',
    ...wrapped('Flags can also be set in a config file and by variables: see recua help environment and recua config', width),
    ...wrapped(`Exit codes: ${exitCodes.map(([code, meaning]) => `${code} ${meaning.replace(/[;:].*/, '')}`).join(', ')}. A server that is stopped exits with 0. recua help <command> names further codes`, width),
    '',
    'Try: recua run builtin -p "Hello". On a terminal, recua alone opens a menu.',
  ]);
}

export function environmentHelp(width = terminalWidth()): string {
  return lines([
    ...wrapped('A flag that is not on the command line takes its value from its variable, else from the command\'s section of the config file, '
      + 'else from the file\'s general part, else its default. recua config shows which.', width),
    '',
    ...wrapped('Config file: $RECUA_CONFIG, else $XDG_CONFIG_HOME/recua/config.json, else ~/.config/recua/config.json', width),
    ...wrapped('Its keys are the long names of flags; a section has the name of a command:', width),
    ...configExample.split('\n').map((line) => `  ${line}`),
    '',
    ...wrapped('A flag\'s variable is RECUA_ and its long name: RECUA_CTX_SIZE for --ctx-size. A switch takes 1 or 0: '
      + '--no-mmap is RECUA_MMAP=0, and "mmap": false in the file.', width),
    '',
    'Variables',
    ...columns(otherVariables, width),
  ]);
}

/** One example of each form, for help and docs/cli.md; test/cli/commands/config.test.ts uses it. */
export const configExample = `{
  "threads": 4,
  "run": { "temp": 0.2 },
  "serve start": { "port": 9000, "mmap": false }
}`;

function others(one: AnyCommand): string {
  return one.aliases.length > 0 ? ` (also ${one.aliases.join(', ')})` : '';
}

function groupRows(inner: readonly AnyCommand[]): [string, string][] {
  const rows = inner.map((one): [string, string] => [`${one.name} ${one.operands}`.trim(), `${one.summary}${others(one)}`]);
  return [...rows, ['help [command]', 'Explain these commands']];
}

export function usage({ command: one, path }: Place): string {
  const rest = [one.operands, Object.keys(one.flags).length > 0 ? '[flags]' : ''];
  return ['recua', path, ...rest.filter((word) => word !== '')].join(' ');
}

export function commandHelp({ command: one, path }: Place, width = terminalWidth()): string {
  const [first, ...groups] = groupsOf(one);
  const left = leftOf(Object.values(one.flags).map(flagRow));
  const examples = one.examples ?? [];
  const shown = ({ title, flags }: FlagGroup) => ['', title, ...columns(flags.map(flagRow), width, left)];
  return lines([
    ...wrapped(`Usage: ${usage({ command: one, path })}`, width),
    '',
    ...wrapped(`${one.summary}.`, width),
    ...(one.details === '' ? [] : wrapped(one.details, width)),
    ...(one.subcommands ? ['', 'Commands', ...columns(groupRows(one.subcommands), width)] : []),
    ...(first ? shown(first) : []),
    ...(examples.length === 0 ? [] : ['', 'Examples', ...examples.flatMap(([line, does]) => [`  ${line}`, ...wrapped(does, width, '      ')])]),
    ...groups.flatMap(shown),
    ...(one.subcommands ? ['', `For the flags of one of them: recua help ${path} <command>`] : []),
  ]);
}

/** A flag's names as users write them, short ones first, followed by its value. */
export function flagNames(flag: Flag<unknown>): string {
  const names = [...flag.names].sort((a, b) => Number(a.startsWith('--')) - Number(b.startsWith('--'))).join(', ');
  return `${names}${flag.value === '' ? '' : ` <${flag.value}>`}`;
}

/** The default as text; '' if there is none worth showing, or if the flag's help tells it. */
export function flagDefault(flag: Flag<unknown>): string {
  const { value, fallback } = flag;
  if (describesDefault(flag)) return '';
  return value !== '' && (typeof fallback === 'number' || (typeof fallback === 'string' && fallback !== '')) ? String(fallback) : '';
}

function flagRow(flag: Flag<unknown>): [string, string] {
  const fallback = flagDefault(flag);
  const variable = flag.perCall ? undefined : shownVariable(flag);
  return [flagNames(flag), `${flag.help}${fallback === '' ? '' : ` (default ${fallback})`}${variable === undefined ? '' : ` [${variable}]`}`];
}

/** Width of the terminal on stdout. Infinity without one, so that scripts get whole lines. */
function terminalWidth(): number {
  return Math.max(40, stdoutColumns());
}

function lines(all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}

function wrapped(text: string, width: number, indent = ''): string[] {
  if (width === Infinity) return [`${indent}${text}`];
  return wrapAnsi(text, width - indent.length, { hard: true }).split('\n').map((line) => `${indent}${line}`);
}

/** Width of the column of names, so that the texts are aligned. */
function leftOf(rows: readonly (readonly [string, string])[]): number {
  return Math.min(34, Math.max(...rows.map(([name]) => stringWidth(name))));
}

function columns(rows: readonly (readonly [string, string])[], width: number, left = leftOf(rows)): string[] {
  const indent = ' '.repeat(left + 4);
  return rows.flatMap(([name, text]) => {
    const [first = '', ...more] = wrapped(text, width, indent);
    const gap = left - stringWidth(name);
    return gap < 0 ? [`  ${name}`, first, ...more] : [`  ${name}${' '.repeat(gap)}  ${first.slice(indent.length)}`, ...more];
  });
}
