// `recua config [command]`: what the flags of a command are set to, what set them, and where Recua
// keeps its files.
import { existsSync } from 'node:fs';
import { RecuaError } from '../../errors.js';
import { findPlaces } from '../../models/places.js';
import type { AnyCommand } from '../command.js';
import { command } from '../command.js';
import { allPlaces, findPlace } from '../command-tree.js';
import type { Place } from '../command-tree.js';
import { describesDefault, misuse, on, perCall, settingNames, shownValue } from '../flags/flags.js';
import { print, say, tame, toJson } from '../terminal/output.js';
import { stdoutColumns } from '../markdown/screen.js';
import { configPath, FlagSettings } from '../flags/settings.js';
import type { SettingOrigin } from '../flags/settings.js';

interface Row {
  name: string;
  value: unknown;
  origin: SettingOrigin;
}

export function makeConfigCommand(whole: () => Promise<readonly AnyCommand[]>): AnyCommand {
  return command({
    name: 'config',
    aliases: [],
    operands: '[command]',
    summary: 'Show the values of flags, what set them, and where Recua keeps its files',
    details: 'With a command, it shows all settings of that command; with path, only where the config file is. recua help environment explains how to set flags.',
    examples: [
      ['recua config', 'Show the folders, and everything set by the config file and by variables'],
      ['recua config serve start', 'Show every setting of recua serve start, and where its value comes from'],
      ['RECUA_THREADS=2 recua config', 'Show which flags a variable sets'],
    ],
    flags: { json: perCall(on(['--json'], 'Print one JSON object')) },
    async run({ values, operands }) {
      const all = await whole();
      const path = configPath(process.env);
      if (operands.length === 1 && operands[0] === 'path') {
        await print(values.json ? toJson({ path, exists: existsSync(path) }) : `${path}\n`);
        return 0;
      }
      const settings = await FlagSettings.read(whole).catch(async (thrown: unknown) => {
        // Where the file is, and all others, can be told all the same.
        if (operands.length === 0 && !values.json) await print(tame(`${(await placeLines(path)).join('\n')}\n`));
        throw thrown;
      });
      const chosen = operands.length === 0 ? allPlaces(all) : allPlaces([commandOf(all, operands)]).map(within(operands));
      const strays = settings.strayVariables(all);
      const tables = chosen.map((place) => ({ path: place.path, rows: rowsOf(place, settings) })).filter(({ rows }) => rows.length > 0);
      if (values.json) await print(asJson(settings, tables, strays));
      else await print(tame(await asText(settings, tables, operands.length === 0)));
      if (!values.json) for (const stray of strays) say(`Warning: ${stray}`);
      return 0;
    },
  });
}

function commandOf(all: readonly AnyCommand[], words: readonly string[]): AnyCommand {
  try {
    return findPlace(all, words).command;
  } catch (thrown) {
    throw misuse(`Expected the name of a command, or path, after recua config, which only shows settings. How to set them: recua help environment. ${RecuaError.from(thrown).message}`);
  }
}

/** The paths of a group's commands begin with the group's own path. */
function within(operands: readonly string[]): (place: Place) => Place {
  const before = operands.slice(0, -1).map((word) => `${word} `).join('');
  return ({ command: one, path }) => ({ command: one, path: `${before}${path}` });
}

function rowsOf({ command: one, path }: Place, settings: FlagSettings): Row[] {
  return Object.values(one.flags).filter((flag) => !flag.perCall).map((flag) => {
    const found = settings.find(path, flag);
    const value = found ? found.value : describesDefault(flag) ? undefined : flag.fallback;
    return { name: settingNames(flag)[0]!, value: shownValue(flag, value), origin: found?.origin ?? { from: 'default' } };
  });
}

interface Table {
  path: string;
  rows: readonly Row[];
}

function keptPlaces(config: string): [string, string][] {
  const { hub, sessions, state, tokenFile } = findPlaces();
  return [['config file', config], ['models', hub], ['saved chats', sessions], ['state', state], ['token file', tokenFile]];
}

async function placeLines(config: string): Promise<string[]> {
  return ['Places', ...await aligned(keptPlaces(config).map(([name, path]) => [name, path, existsSync(path) ? '' : 'not there yet']))];
}

async function asText(settings: FlagSettings, tables: readonly Table[], brief: boolean): Promise<string> {
  const shown = brief ? tables.map(({ path, rows }) => ({ path, rows: rows.filter(({ origin }) => origin.from !== 'default') })).filter(({ rows }) => rows.length > 0) : tables;
  const lines: string[] = [];
  if (brief) {
    lines.push(...await placeLines(settings.path), '');
    if (shown.length === 0) lines.push('No config file or variable sets anything: every flag has its default.', '');
  }
  for (const { path, rows } of shown) {
    lines.push(`recua ${path}`, ...await aligned(rows.map(({ name, value, origin }) => [name, valueText(value, origin), originText(origin)])), '');
  }
  if (brief) lines.push('For all flags of a command: recua config <command>');
  else lines.pop();
  return `${lines.join('\n')}\n`;
}

function asJson(settings: FlagSettings, tables: readonly Table[], strays: readonly string[]): string {
  return toJson({
    places: Object.fromEntries(keptPlaces(settings.path).map(([name, path]) => [name.replace(' ', '_'), { path, exists: existsSync(path) }])),
    commands: Object.fromEntries(
      tables.map(({ path, rows }) => [
        path,
        Object.fromEntries(rows.map(({ name, value, origin }) => [name, { value: value ?? null, origin }])),
      ]),
    ),
    warnings: strays,
  });
}

function valueText(value: unknown, origin: SettingOrigin): string {
  // The value of `models` in the config file is the path of that file.
  if (origin.from === 'file' && value === origin.path) return 'the models in the config file';
  return typeof value === 'string' ? (value === '' ? '–' : value) : value === undefined ? '–' : JSON.stringify(value);
}

export function originText(origin: SettingOrigin): string {
  switch (origin.from) {
    case 'default': return 'default';
    case 'flag': return 'command line';
    case 'variable': return `variable ${origin.name}`;
    case 'file': return `${origin.path}${origin.section === '' ? '' : `, section ${origin.section}`}`;
  }
}

async function aligned(rows: readonly (readonly string[])[]): Promise<string[]> {
  const widths = (rows[0] ?? []).map((_, at) => Math.min(40, Math.max(...rows.map((row) => row[at]!.length))));
  const columns = stdoutColumns();
  const { shorten } = await import('../terminal/rows.js');
  return rows.map((row) => {
    // On a terminal the longest cell, usually a path, is shortened; the first is a name and stays.
    const longest = Math.max(...row.slice(1).map((cell) => cell.length));
    const wide = row.reduce((sum, cell, at) => sum + Math.max(cell.length, widths[at]!) + 2, 0);
    const fitted =
      wide <= columns
        ? row
        : row.map((cell, at) => (at > 0 && cell.length === longest ? shorten(cell, columns - wide + cell.length) : cell));
    return `  ${fitted.map((cell, at) => cell.padEnd(widths[at]!)).join('  ').trimEnd()}`;
  });
}
