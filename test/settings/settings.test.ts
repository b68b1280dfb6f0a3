import t from 'tap';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { allPlaces } from '#recua/cli/command-tree.js';
import { engineOptions } from '#recua/cli/flags/engine-flags.js';
import { parseArguments } from '#recua/cli/flags/arguments.js';
import { flagWord, settingNames, variableNames, type Flag } from '#recua/cli/flags/flags.js';
import { settingFlag, settingFlags, settingValues } from '#recua/cli/flags/setting-flags.js';
import { FlagSettings } from '#recua/cli/flags/settings.js';
import { allCommands } from '#recua/cli/table.js';
import { readLoadOptions } from '#recua/library/options.js';
import { answerSettings, samplerSettings } from '#recua/settings/answer.js';
import { configSettings, engineConfigSettings, makeConfig } from '#recua/settings/config.js';
import { engineSettings, sharingSettings } from '#recua/settings/engine.js';
import type { Setting, Settings } from '#recua/settings/kinds.js';
import { appSettings, serverSettings } from '#recua/settings/server.js';
import { root } from '../cli/recua.js';

const all = await allCommands();
const tables: Record<string, Settings> = { engineSettings, sharingSettings, serverSettings, answerSettings, samplerSettings };

for (const [name, table] of Object.entries(tables)) {
  t.test(`each entry of ${name} is sound`, (t) => {
    for (const [key, setting] of Object.entries(table)) {
      const { kind, fallback, flag } = setting;
      if (kind === 'choice') t.ok(setting.choices.includes(fallback), `${key}: the default is one of the choices`);
      if (kind === 'integer' || kind === 'number') t.ok(setting.min <= fallback && fallback <= setting.max, `${key}: the default is in the range`);
      if (kind === 'integer') t.ok([setting.min, setting.max, fallback].every(Number.isSafeInteger), `${key}: whole numbers`);
      if (!flag) {
        t.ok(setting.fields, `${key}: what has no flag is a field of requests`);
        continue;
      }
      t.match(flag.help, /^[A-Z].*[^.]$/, `${key}: help is a sentence without its full stop`);
      t.match(flag.names[0], /^--[a-z][a-z-]+$/, `${key}: the long name first`);
      t.equal(flag.names[0].startsWith('--no-'), kind === 'switch' && fallback === true, `${key}: --no- is for what is on`);
      if (kind !== 'integer' && kind !== 'number') continue;
      const unit = flag.unit ?? 1;
      t.ok(Number.isInteger(setting.kind === 'number' ? 0 : fallback / unit), `${key}: the flag can say the default`);
      const { fallback: shown, read } = settingFlag(setting as Setting & { flag: NonNullable<Setting['flag']> }) as Flag<number>;
      t.equal(read(String(shown)), shown, `${key}: the flag reads its default`);
      for (const bound of [flag.min ?? setting.min / unit, flag.max ?? setting.max / unit]) {
        t.equal(read(String(bound)), bound, `${key}: the flag takes ${bound}`);
        t.ok(setting.min <= bound * unit && bound * unit <= setting.max, `${key}: and so does the setting`);
      }
    }
    t.end();
  });
}

t.test('no two settings of a command have a flag, a variable or a key in common', (t) => {
  for (const group of [configSettings, { ...answerSettings, ...samplerSettings, ...engineSettings }] as Settings[]) {
    const flags = Object.values(settingFlags(group)) as Flag<unknown>[];
    t.equal(flags.length, Object.values(group).filter(({ flag }) => flag).length, 'each flag has a key of its own');
    for (const names of [flags.flatMap(({ names: own }) => own), flags.flatMap(variableNames), flags.flatMap(settingNames)]) {
      t.strictSame(names.filter((name, at) => names.indexOf(name) !== at), []);
    }
  }
  t.end();
});

t.test('each command that starts an engine has the flags of how to load', (t) => {
  const flagsOf = (path: string) => allPlaces(all).find((one) => one.path === path)!.command.flags;
  for (const path of ['api', 'serve start', 'run', 'chat']) {
    for (const key of Object.keys(settingFlags(engineSettings))) t.ok(flagsOf(path)[key], `recua ${path}: ${key}`);
  }
  for (const path of ['api', 'serve start']) for (const key of Object.keys(settingFlags(configSettings))) t.ok(flagsOf(path)[key], `recua ${path}: ${key}`);
  t.end();
});

/** Another value than the default. */
function other(setting: Setting): string | number | boolean {
  switch (setting.kind) {
    case 'integer': return setting.fallback < setting.max ? setting.fallback + 1 : setting.fallback - 1;
    case 'number': return (setting.min + setting.max) / 2;
    case 'text': return 'another';
    case 'choice': return setting.choices.find((one) => one !== setting.fallback)!;
    case 'switch': return !setting.fallback;
  }
}

for (const [key, setting] of Object.entries(engineConfigSettings) as [keyof typeof engineConfigSettings, Setting][]) {
  t.test(`${key} arrives in the engine's options by flag, variable, config file and option of the library`, async (t) => {
    const wanted = other(setting);
    const folder = t.testdir();
    const textFile = join(folder, 'text');
    writeFileSync(textFile, String(wanted));
    const said = setting.flag!.file ? textFile : wanted;
    const flag = (settingFlags(configSettings) as Record<string, Flag<unknown>>)[setting.flag!.key ?? key]!;
    const configFile = join(folder, 'config.json');
    /** What the engine is told where this is said. */
    const arrived = async (argv: string[], config: object, variables: Record<string, string>) => {
      writeFileSync(configFile, JSON.stringify(config));
      const settings = await FlagSettings.read(allCommands, { RECUA_CONFIG: configFile, ...variables });
      const { values } = parseArguments('api', settingFlags(configSettings), argv, settings);
      return engineOptions('model.gguf', makeConfig(await settingValues(configSettings, values)))[key];
    };
    t.equal(await arrived([], {}, {}), setting.fallback, 'the default where nothing is said');
    t.equal(await arrived([flagWord(flag, said)], {}, {}), wanted, 'flag');
    for (const name of variableNames(flag)) t.equal(await arrived([], {}, { [name]: String(said) }), wanted, name);
    for (const name of settingNames(flag)) t.equal(await arrived([], { [name]: said }, {}), wanted, `${name} in the config file`);
    t.equal(readLoadOptions({}).engine[key], setting.fallback, 'the default of the library');
    t.equal(readLoadOptions({ [key]: wanted }).engine[key], wanted, 'option of the library');
    const wrong = { integer: 0.5, number: 'x', text: 1, choice: 'x', switch: 1 }[setting.kind];
    t.throws(() => readLoadOptions({ [key]: wrong }), { param: key, message: /^Expected / }, 'which is checked');
  });
}

t.test('docs/api.md describes each option that comes from a table, and has its default', (t) => {
  const text = readFileSync(join(root, 'docs', 'api.md'), 'utf8');
  for (const [heading, table] of Object.entries<Settings>({
    LoadOptions: engineConfigSettings, ServerOptions: appSettings, GenerateOptions: { ...answerSettings, ...samplerSettings },
  })) {
    const part = text.slice(text.indexOf(`\n### ${heading}\n`)).split(/\n\*\*\*\n/)[0]!;
    for (const [key, setting] of Object.entries(table)) {
      const row = new RegExp(`^\\| \`${key}\\?\` \\| .* \\| (.+) \\|$`, 'm').exec(part)?.[1];
      t.match(row, /^\W*\w/, `${heading}.${key} has a description: the comment above its entry`);
      const { fallback } = setting;
      // In bytes and milliseconds the description may have a unit of its own.
      if (typeof fallback === 'number' && !setting.flag?.unit) t.ok(row?.includes(String(fallback).replace('-', '−')), `${heading}.${key}: ${fallback}`);
    }
  }
  t.end();
});
