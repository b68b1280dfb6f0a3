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
const tables: Record<string, Settings> = {
  engineSettings, sharingSettings, serverSettings, answerSettings, samplerSettings,
};

for (const [name, table] of Object.entries(tables)) {
  t.test(`each entry of ${name} is valid`, (t) => {
    for (const [key, setting] of Object.entries(table)) {
      const { kind, fallback, flag } = setting;
      if (kind === 'choice') t.ok(setting.choices.includes(fallback), `${key}: one of the choices`);
      if (kind === 'integer' || kind === 'number') {
        const { min, max } = setting;
        t.ok(min <= fallback && fallback <= max, `${key}: the default is in the range`);
        const isWhole = [min, max, fallback].every(Number.isSafeInteger);
        t.ok(kind === 'number' || isWhole, `${key}: whole numbers`);
      }
      if (!flag) {
        t.ok(setting.fields, `${key}: what has no flag is a field of requests`);
        continue;
      }
      t.match(flag.help, /^[A-Z].*[^.]$/, `${key}: help is a sentence without its full stop`);
      t.match(flag.names[0], /^--[a-z][a-z-]+$/, `${key}: the long name first`);
      const isOn = kind === 'switch' && fallback;
      t.equal(flag.names[0].startsWith('--no-'), isOn, `${key}: --no- is for what is on`);
      if (kind !== 'integer' && kind !== 'number') continue;
      const unit = flag.unit ?? 1;
      const { fallback: shown, read } = settingFlag({ ...setting, flag }) as Flag<number>;
      t.equal(read(String(shown)), shown, `${key}: the flag reads its default`);
      for (const bound of [flag.min ?? setting.min / unit, flag.max ?? setting.max / unit]) {
        t.equal(read(String(bound)), bound, `${key}: the flag takes ${bound}`);
        const value = bound * unit;
        t.ok(setting.min <= value && value <= setting.max, `${key}: and so does the setting`);
      }
    }
    t.end();
  });
}

t.test('no two settings of a command have a flag, a variable or a key in common', (t) => {
  const ofAnswers = { ...answerSettings, ...samplerSettings, ...engineSettings };
  for (const group of [configSettings, ofAnswers] as Settings[]) {
    const flags = Object.values(settingFlags(group)) as Flag<unknown>[];
    const flagged = Object.values(group).filter(({ flag }) => flag);
    t.equal(flags.length, flagged.length, 'each flag has a key of its own');
    for (const namesOf of [(flag: Flag<unknown>) => flag.names, variableNames, settingNames]) {
      const names = flags.flatMap(namesOf);
      t.strictSame(names.filter((name, at) => names.indexOf(name) !== at), []);
    }
  }
  t.end();
});

t.test('each command that starts an engine has the loading flags', (t) => {
  const groups = {
    api: configSettings, 'serve start': configSettings, run: engineSettings, chat: engineSettings,
  };
  for (const [path, group] of Object.entries<Settings>(groups)) {
    const { flags } = allPlaces(all).find((one) => one.path === path)!.command;
    for (const key of Object.keys(settingFlags(group))) t.ok(flags[key], `recua ${path}: ${key}`);
  }
  t.end();
});

/** A value other than the default. */
function other(setting: Setting): string | number | boolean {
  switch (setting.kind) {
    case 'integer': return setting.fallback + (setting.fallback < setting.max ? 1 : -1) * (setting.flag?.unit ?? 1);
    case 'number': return (setting.min + setting.max) / 2;
    case 'text': return 'another';
    case 'choice': return setting.choices.find((one) => one !== setting.fallback)!;
    case 'switch': return !setting.fallback;
  }
}

for (const [name, setting] of Object.entries<Setting>(engineConfigSettings)) {
  const key = name as keyof typeof engineConfigSettings;
  t.test(`${key} reaches the engine's options, whatever sets it`, async (t) => {
    const wanted = other(setting);
    const folder = t.testdir();
    const textFile = join(folder, 'text');
    writeFileSync(textFile, String(wanted));
    const said = setting.flag!.file ? textFile : typeof wanted === 'number' ? wanted / (setting.flag!.unit ?? 1) : wanted;
    const flags = settingFlags(configSettings);
    const flag = flags[(setting.flag!.key ?? key) as keyof typeof flags] as Flag<unknown>;
    const configFile = join(folder, 'config.json');
    /** The engine option that results from this setting. */
    const arrived = async (argv: string[], config: object, variables: Record<string, string>) => {
      writeFileSync(configFile, JSON.stringify(config));
      const environment = { RECUA_CONFIG: configFile, ...variables };
      const settings = await FlagSettings.read(allCommands, environment);
      const { values } = parseArguments('api', flags, argv, settings);
      const given = await settingValues(configSettings, values);
      return engineOptions('model.gguf', makeConfig(given))[key];
    };
    t.equal(await arrived([], {}, {}), setting.fallback, 'the default where nothing is said');
    t.equal(await arrived([flagWord(flag, said)], {}, {}), wanted, 'flag');
    for (const variable of variableNames(flag)) {
      t.equal(await arrived([], {}, { [variable]: String(said) }), wanted, variable);
    }
    for (const own of settingNames(flag)) {
      t.equal(await arrived([], { [own]: said }, {}), wanted, `${own} in the config file`);
    }
    t.equal(readLoadOptions({}).engine[key], setting.fallback, 'the default of the library');
    t.equal(readLoadOptions({ [key]: wanted }).engine[key], wanted, 'option of the library');
    const wrong = { integer: 0.5, number: 'x', text: 1, choice: 'x', switch: 1 }[setting.kind];
    const refusal = { param: key, message: /^Expected / };
    t.throws(() => readLoadOptions({ [key]: wrong }), refusal, 'which is checked');
  });
}

t.test('a flag with another unit than its setting is converted', async (t) => {
  const argv = ['--drain-timeout', '3', '--body-limit=2', '--body-memory=5', '--ping-interval=7'];
  const { values } = parseArguments('api', settingFlags(configSettings), argv);
  t.match(values, { drainSeconds: 3, bodyLimitMib: 2, bodyMemoryMib: 5, pingSeconds: 7 });
  t.match(await settingValues(configSettings, values), {
    drainMs: 3000, bodyLimitBytes: 2_097_152, bodyMemoryBytes: 5_242_880, pingIntervalMs: 7000,
  });
});

t.test('docs/api.md describes each option that comes from a table, and has its default', (t) => {
  const text = readFileSync(join(root, 'docs', 'api.md'), 'utf8');
  for (const [heading, table] of Object.entries<Settings>({
    LoadOptions: engineConfigSettings,
    ServerOptions: appSettings,
    GenerateOptions: { ...answerSettings, ...samplerSettings },
  })) {
    const part = text.slice(text.indexOf(`\n### ${heading}\n`)).split(/\n\*\*\*\n/)[0]!;
    for (const [key, setting] of Object.entries(table)) {
      const row = new RegExp(`^\\| \`${key}\\?\` \\| .* \\| (.+) \\|$`, 'm').exec(part)?.[1];
      t.match(row, /^\W*\w/, `${heading}.${key} has a description: the comment above its entry`);
      const { fallback, flag } = setting;
      // In bytes and milliseconds the description may use another unit.
      if (typeof fallback !== 'number' || flag?.unit) continue;
      t.ok(row?.includes(String(fallback).replace('-', '−')), `${heading}.${key}: ${fallback}`);
    }
  }
  t.end();
});
