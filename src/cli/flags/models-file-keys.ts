// The keys that a models file may give a model, from the tables of settings, and which key a wrong
// one means. Used by models-file; cli/reference makes the table in docs/configuration.md from it.
import { answerSettings, samplerSettings } from '../../settings/answer.js';
import { engineConfigSettings } from '../../settings/config.js';
import type { Setting, Settings } from '../../settings/kinds.js';
import { nearest } from '../../models/names/nearest.js';

const { contextSize, chatTemplate, ...others } = engineConfigSettings;

/** How to load the model. `template` names a file, `keepAlive` is in seconds. */
export const loadingKeys = {
  context: contextSize, template: { ...chatTemplate, kind: 'text', fallback: '' }, ...others,
  keepAlive: { kind: 'integer', fallback: 0, min: -1, max: 31_536_000 },
} as const satisfies Settings;

/** All keys that are settings. */
export const settingKeys: Settings = { ...loadingKeys, ...answerSettings, ...samplerSettings };

export const modelKeys: readonly string[] = ['model', 'aliases', 'pinned', 'group', ...Object.keys(settingKeys)];

const leastLetters = 4;

/** Without what differs between a key, a flag and a field: `--ctx-size`, `ctx_size`, `ctxSize`. */
const plain = (name: string): string => name.replace(/[-_]/g, '').toLowerCase();

/** Other spellings of the keys: flags, fields of requests, and options of the library. */
const spellings: ReadonlyMap<string, string> = new Map([
  ...Object.entries(settingKeys).flatMap(([key, setting]) => namesOf(setting).map((name): [string, string] => [plain(name), key])),
  ['contextsize', 'context'], ['chattemplate', 'template'], ['alias', 'aliases'],
  ...modelKeys.map((key): [string, string] => [plain(key), key]),
]);

function namesOf({ flag, fields }: Setting): readonly string[] {
  return [...flag?.names ?? [], ...fields ?? []];
}

/** The key that this most likely means: a typing error, or another spelling, as of a flag. */
export function meantKey(given: string): string | undefined {
  const long = [...spellings.keys()].filter((name) => name.length >= leastLetters);
  return spellings.get(plain(given)) ?? nearest(given, modelKeys) ?? spellings.get(nearest(plain(given), long) ?? '');
}
