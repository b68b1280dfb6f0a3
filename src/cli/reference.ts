// Generates the command line reference, docs/cli.md and docs/recua.1, from the table of commands,
// and the table of a models file's keys in docs/configuration.md. scripts/docs.mjs runs it; a test
// compares the files with its output.
import { samplingWords } from '../request/words.js';
import { defaults } from '../settings/config.js';
import { maxCount, type Setting } from '../settings/kinds.js';
import { commandRows, typingHelp } from './chat/in-chat-commands.js';
import { setRows } from './chat/set-command.js';
import type { AnyCommand } from './command.js';
import { allPlaces } from './command-tree.js';
import type { Place } from './command-tree.js';
import { exitCodes, otherVariables } from './flags/environment.js';
import type { Flag } from './flags/flags.js';
import { settingNames, shownVariable } from './flags/flags.js';
import { settingKeys } from './flags/models-file-keys.js';
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
    '## Inside a chat',
    '',
    'A line that begins with a slash is a command. Tab completes it.',
    '',
    '| Command | |',
    '|---|---|',
    ...[...commandRows, ...setRows].map(([name, does]) => `| ${code(name)} | ${cell(does)} |`),
    '',
    ...typingHelp.map((line) => `- ${prose(line)}`),
    '',
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
    'A server that is stopped exits with 0. The commands that have further exit codes list them above.',
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
    '.SH INSIDE A CHAT',
    ...[...commandRows, ...setRows].flatMap(([name, does]) => ['.TP', `.B ${roff(name)}`, roff(does)]),
    ...typingHelp.flatMap((line) => ['.PP', roff(line)]),
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

/** Keys of a model whose flag says it in another way, or that have none. */
const ownMeanings: Readonly<Record<string, string>> = {
  context: 'Tokens of context for each request, prompt and answer together; 0 means the model\'s training size. Memory grows with this times `parallel`. The default is 2048 with `recua serve start`',
  template: 'A file with a Jinja chat template instead of the model\'s own; read before each load',
  queueTimeoutMs: 'Refuse a request that has waited this long in the queue; 0 means no limit',
  gpuLayers: 'Offload this many layers to GPUs; `"auto"` (implied by `device` and `requireGpu`) means as many as free GPU memory holds, -1 every layer',
  mmap: '`false` reads the file into memory instead of mapping it',
  keepAlive: 'Unload the model this long after its last request; 0 means at once, -1 never',
};

const ownFlags: Readonly<Record<string, string>> = { keepAlive: '--keep-alive', template: '--chat-template-file' };

const units: Readonly<Record<string, string>> = {
  context: 'tokens', queueTimeoutMs: 'ms', keepAlive: 'seconds', batchSize: 'tokens', microBatchSize: 'tokens', maxStallMs: 'ms', cacheRamMib: 'MiB',
  specDraftMax: 'tokens', maxTokens: 'tokens', topK: 'tokens', penaltyLastN: 'tokens', dryAllowedLength: 'tokens', dryPenaltyLastN: 'tokens', minKeep: 'tokens', minTokens: 'tokens',
};

const beginning = '<!-- Keys of a model. Written by scripts/docs.mjs: change them in src/settings. -->';
const end = '<!-- end of the keys -->';

/** The page with its table of the keys that a models file may give a model. */
export function withModelKeys(page: string): string {
  const [before, rest] = page.split(beginning);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error(`Expected a page with the lines ${beginning} and ${end}.`);
  return `${before}${beginning}\n\n${modelKeyTable().join('\n')}\n\n${end}${after}`;
}

function modelKeyTable(): string[] {
  return ['| Key | Type | Unit | Default | Flag | Meaning |', '|---|---|---|---|---|---|', ...Object.entries(settingKeys).map(([key, setting]) => {
    const flag = ownFlags[key] ?? setting.flag?.names[0];
    const meaning = ownMeanings[key] ?? setting.flag?.help ?? samplingWords[setting.fields?.[0] ?? ''];
    const told = typeof meaning === 'string' ? meaning : meaning?.text;
    if (told === undefined) throw new Error(`There is no meaning of ${key}.`);
    const fallback = key === 'keepAlive' ? defaults.keepAliveMs / 1_000 : setting.fallback;
    return `| ${code(key)} | ${typeText(setting)} | ${units[key] ?? ''} | ${fallback === '' ? '' : code(JSON.stringify(fallback))} | ${flag === undefined ? '' : code(flag)} | ${cell(told.replace(/\.$/, ''))} |`;
  })];
}

function typeText(setting: Setting): string {
  switch (setting.kind) {
    case 'integer':
    case 'number': {
      const most = setting.max >= maxCount ? ` ≥ ${setting.min}` : ` from ${setting.min} to ${setting.max}`;
      const words = setting.kind === 'integer' ? Object.entries(setting.words ?? {}).filter(([word, value]) => word === value).map(([word]) => ` or ${code(JSON.stringify(word))}`) : [];
      return `${setting.kind}${most}${words.join('')}`;
    }
    case 'text': return 'string';
    case 'choice': return setting.choices.map((one) => code(JSON.stringify(one))).join(', ');
    case 'switch': return '`true` or `false`';
  }
}
