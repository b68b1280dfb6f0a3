// Chooses the model for a `recua chat` that names none: the model of the newest saved chat, else
// the only one in the store, else one that the user picks from a list. Called by commands/chat.ts.
import { sizeText } from '../../models/byte-size.js';
import { isWhole } from '../../models/cache/cached-models.js';
import type { Places } from '../../models/places.js';
import { findModel, scanStore } from '../../models/store.js';
import type { ListedModel } from '../../models/store.js';
import { misuse } from '../flags/flags.js';
import { say } from '../terminal/output.js';
import { plain } from '../terminal/wording.js';
import { pick } from './model-picker.js';
import { listSessions, loadSession } from './sessions/session-store.js';

/** Number of names in the error message. */
const mostNames = 5;

/**
 * `asks`: the user can be asked; `resumes`: there is a saved chat, which names no model. Throws
 * `invalid_usage` if the choice is unclear, `cancelled` if the user leaves the list.
 */
export async function chooseModel(places: Places, asks: boolean, resumes = false): Promise<string> {
  const last = await lastModel(places);
  if (last !== undefined) return last;
  const models = (await scanStore(places)).filter(isWhole).sort((a, b) => (b.lastUsedMs ?? 0) - (a.lastUsedMs ?? 0));
  if (models.length === 0) {
    throw misuse('Expected a model: recua chat <model>, and there is none on this machine yet. '
      + 'recua pull <owner/repo> downloads one; recua chat builtin uses the small built-in one.');
  }
  if (models.length === 1) return models[0]!.name;
  if (asks && process.stdout.isTTY && process.env['TERM'] !== 'dumb') return await askPerson(models);
  const names = models.slice(0, mostNames).map(({ name }) => name).join(', ');
  const saved = resumes ? 'The saved chat names no model.' : '--continue and --resume use the model of the saved chat.';
  throw misuse(`Expected a model: recua chat <model>. There are ${names}${models.length > mostNames ? ' and others (recua list)' : ''}. ${saved}`);
}

/** The model of the newest chat, if the chat is valid and the model still exists. */
export async function lastModel(places: Places): Promise<string | undefined> {
  const [newest] = await listSessions(places.sessions);
  const session = newest && await loadSession(newest.path).catch(() => undefined);
  if (!session) return undefined;
  return await findModel(session.model, { places }).then(() => session.model, () => undefined);
}

/** A model in a list to pick from. */
export function modelRow({ name, quantization, sizeBytes, aliases }: ListedModel): string {
  const about = [quantization, sizeText(sizeBytes), ...aliases].filter((part) => part !== '').join(', ');
  return plain(`${name} (${about})`);
}

async function askPerson(models: readonly ListedModel[]): Promise<string> {
  say('Which model? Choose with Up and Down or a number; Enter confirms, Esc leaves.');
  const at = await pick([...models.map(modelRow), 'builtin (the small built-in one)']);
  return models[at]?.name ?? 'builtin';
}
