// `recua cache`: lists the conversations that outlive servers (`--cache-disk`), by model; `clear`
// removes them.
import { lastingFolder } from '../../engine/sleep/sleep-cache.js';
import { clearKept, listKept, type KeptModel } from '../../engine/sleep/kept.js';
import { sizeText } from '../../models/byte-size.js';
import { findPlaces } from '../../models/places.js';
import { command } from '../command.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { print, say, toJson } from '../terminal/output.js';

export const cache = command({
  name: 'cache',
  aliases: [],
  operands: '[ls | clear [model]]',
  summary: 'List or remove conversations kept across restarts',
  details: 'A server with --cache-disk keeps the computed state of conversations on disk, so that after a restart their next turn reads nothing twice. '
    + 'These files are as private as the conversations. clear removes all of them, or those of one model; a running server recomputes what is gone.',
  examples: [
    ['recua cache', 'List what is kept, by model'],
    ['recua cache clear', 'Remove all of it'],
  ],
  flags: {
    json: perCall(on(['--json'], 'Print JSON')),
  },
  async run({ values, operands }) {
    const [action = 'ls', model, ...rest] = operands;
    const root = lastingFolder(findPlaces().state);
    if (rest.length > 0 || (action !== 'clear' && model !== undefined) || !['ls', 'list', 'clear'].includes(action)) {
      throw misuse(`Expected recua cache, recua cache ls or recua cache clear [model], got recua cache ${operands.join(' ')}.`);
    }
    const found = action === 'clear' ? await clearKept(root, model === undefined ? undefined : await namesOf(model)) : await listKept(root);
    if (values.json) await print(toJson({ folder: root, models: found.map(({ folder: _, ...one }) => one) }));
    else if (action === 'clear') say(found.length === 0 ? nothing(model, await listKept(root)) : `Removed ${describe(found)}.`);
    else if (found.length === 0) await print(`${nothing()}\n`);
    else await print(await tableOf(found));
    return 0;
  },
});

/** All names of a model: a server keeps its conversations under the name that it has there. */
async function namesOf(model: string): Promise<ReadonlySet<string>> {
  const { findModel } = await import('../../models/store.js');
  const found = await findModel(model).catch(() => undefined);
  return new Set([model, ...(found ? [found.id, ...found.aliases, ...found.unlisted] : [])]);
}

function nothing(model?: string, others: readonly KeptModel[] = []): string {
  const what = `No conversations${model === undefined ? '' : ` of ${model}`} are kept.`;
  return others.length > 0 ? `${what} There are some of ${others.map(({ id }) => id).join(', ')}.` : `${what} recua api --cache-disk 4096 keeps some.`;
}

function describe(found: readonly KeptModel[]): string {
  const count = found.reduce((sum, { conversations }) => sum + conversations, 0);
  return `${count} conversation${count === 1 ? '' : 's'}, ${sizeText(found.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0))}`;
}

async function tableOf(found: readonly KeptModel[]): Promise<string> {
  const { rows } = await import('../terminal/rows.js');
  return rows([['MODEL', 'CONVERSATIONS', 'SIZE'], ...found.map(({ id, conversations, sizeBytes }) => [id, String(conversations), sizeText(sizeBytes)])]);
}
