// Generates the command line reference, docs/cli.md and docs/recua.1, from the table of commands.
// scripts/docs.mjs runs it; a test compares the files with its output.
import type { AnyCommand } from './command.js';
import { allPlaces } from './command-tree.js';
import type { Place } from './command-tree.js';
import { exitCodes, otherVariables } from './flags/environment.js';
import type { Flag } from './flags/flags.js';
import { settingNames, shownVariable } from './flags/flags.js';
import { configExample, flagDefault, flagNames, usage } from './help.js';

const settingRules = [
  'Flags can also be set in a config file and by environment variables. The first of these that is set counts: the flag on the command line, the variable, '
  + 'the command\'s section of the config file, the file\'s general part, the default.',
  'The config file is JSON at $RECUA_CONFIG, else $XDG_CONFIG_HOME/recua/config.json, else ~/.config/recua/config.json. Its keys are the long names of '
  + 'flags, without --; a section has the name of a command. A switch is true or false: --no-mmap is "mmap": false.',
  'A flag\'s variable is RECUA_ and its long name: RECUA_CTX_SIZE for --ctx-size. A switch takes 1 or 0: --no-mmap is RECUA_MMAP=0. An empty '
  + 'variable counts as unset.',
  'Flags that concern a single call, such as --json, have no variable and no key in the file. To turn off a switch that is set elsewhere, '
  + 'give --flag=false. recua config shows what is set, and where.',
];

export function markdown(all: readonly AnyCommand[]): string {
  const places = allPlaces(all);
  return `${[
    '# Command line',
    '',
    '<!-- Written by scripts/docs.mjs from the table of commands in src/cli: change it there. -->',
    '',
    '`recua <command> [arguments] [flags]`',
    '',
    '| Command | |',
    '|---|---|',
    ...all.map((command) => `| [${code(command.name)}](#recua-${command.name})${command.aliases.map((alias) => `, ${code(alias)}`).join('')} | ${cell(command.summary)} |`),
    '',
    ...places.flatMap(markdownCommand),
    '## Settings',
    '',
    ...settingRules.flatMap((rule) => [prose(rule), '']),
    '```json',
    configExample,
    '```',
    '',
    '## Environment',
    '',
    '| Variable | |',
    '|---|---|',
    ...otherVariables.map(([name, meaning]) => `| ${code(name)} | ${cell(meaning)} |`),
    '',
    '## Exit codes',
    '',
    '| Code | |',
    '|---|---|',
    ...exitCodes.map(([number, meaning]) => `| ${number} | ${cell(meaning)} |`),
    '',
    'The commands that have further exit codes list them above.',
  ].join('\n')}\n`;
}

function markdownCommand(place: Place): string[] {
  const { command, path } = place;
  const flags = Object.values(command.flags);
  const examples = command.examples ?? [];
  return [
    `${path.includes(' ') ? '###' : '##'} recua ${path}`,
    '',
    code(usage(place)),
    '',
    prose(`${command.summary}.`),
    ...(command.details === '' ? [] : [prose(command.details)]),
    '',
    ...(flags.length === 0 ? [] : ['| Flag | | Default | Variable |', '|---|---|---|---|', ...flags.map(markdownFlag), '']),
    ...(examples.length === 0 ? [] : ['```sh', ...examples.flatMap(([line, does]) => [`# ${does}`, line]), '```', '']),
  ];
}

function markdownFlag(flag: Flag<unknown>): string {
  const fallback = flagDefault(flag);
  const variable = flag.perCall ? '' : code(shownVariable(flag));
  return `| ${code(flagNames(flag))} | ${cell(flag.help)} | ${fallback === '' ? '' : code(fallback)} | ${variable} |`;
}

function code(text: string): string {
  return `\`${text.replaceAll('|', '\\|')}\``;
}

function cell(text: string): string {
  return prose(text).replaceAll('|', '\\|');
}

/** Escapes plain text for Markdown. Backquotes stay markup. */
function prose(text: string): string {
  return text.replace(/[<>*_]/g, (sign) => ({ '<': '&lt;', '>': '&gt;' })[sign] ?? `\\${sign}`)
    .replace(/`[^`]*`/g, (quoted) => quoted.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll(/\\([*_])/g, '$1'));
}

export function manPage(all: readonly AnyCommand[]): string {
  return `${[
    '.\\" Written by scripts/docs.mjs from the table of commands in src/cli: change it there.',
    '.TH RECUA 1 "" "" "Recua"',
    '.SH NAME',
    'recua \\- serve GGUF models from this machine',
    '.SH SYNOPSIS',
    '.B recua',
    '.I command',
    '[arguments] [flags]',
    '.SH DESCRIPTION',
    'An OpenAI-compatible HTTP API and a command line over llama.cpp.',
    '.SH COMMANDS',
    ...allPlaces(all).flatMap(manCommand),
    '.SH SETTINGS',
    ...settingRules.flatMap((rule) => ['.PP', roff(rule)]),
    '.PP',
    '.nf',
    ...configExample.split('\n').map(roff),
    '.fi',
    '.SH ENVIRONMENT',
    ...otherVariables.flatMap(([name, meaning]) => ['.TP', `.B ${roff(name)}`, roff(meaning)]),
    '.SH EXIT STATUS',
    ...exitCodes.flatMap(([number, meaning]) => ['.TP', `.B ${number}`, roff(meaning)]),
  ].join('\n')}\n`;
}

function manCommand(place: Place): string[] {
  const { command } = place;
  return [
    `.SS ${roff(usage(place))}`,
    roff(`${command.summary}.${command.aliases.length > 0 ? ` Also: ${command.aliases.join(', ')}.` : ''}`),
    ...(command.details === '' ? [] : ['.PP', roff(command.details.replaceAll('`', ''))]),
    ...Object.values(command.flags).flatMap(manFlag),
    ...(command.examples ?? []).flatMap(([line, does]) => ['.PP', roff(`${does}:`), '.br', `.B ${roff(line)}`]),
  ];
}

function manFlag(flag: Flag<unknown>): string[] {
  const fallback = flagDefault(flag);
  const setting = flag.perCall ? '' : ` Config file: ${settingNames(flag)[0]!}${flag.off ? ' (false)' : ''}; variable: ${shownVariable(flag)}.`;
  return ['.TP', `.B ${roff(flagNames(flag))}`, roff(`${flag.help}${fallback === '' ? '' : ` (default ${fallback})`}.${setting}`)];
}

/** Escapes text for roff. */
function roff(text: string): string {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('"', '\\(dq').replace(/^([.'])/, '\\&$1')
    .replace(/[^\n -~]/gu, (sign) => `\\[u${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`);
}
