// POST /slots/:id?action=save|restore|erase, as in llama-server: saves the KV cache of a
// conversation to a file and restores it, even after a restart. Conversations are found by their
// tokens in any slot, so the slot's number has no effect, and the reply says so.
import type { Stats } from 'node:fs';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Request, RequestHandler, Response } from 'express';
import type { Engine } from '../../engine/api.js';
import type { SavedState } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { wrongValue, type Fields } from '../../request/fields.js';
import { draftName, isDraft } from '../../system/drafts.js';
import { ClientTurns } from '../exchange/client-turns.js';
import { readAdmission, readAll, residence } from '../exchange/admission.js';
import type { Gateway } from '../http/gateway.js';
import { refusePages } from '../access/pages.js';
import { failureOf, untilAborted } from '../http/traffic.js';
import { Query } from '../http/query.js';

const actions = ['save', 'restore', 'erase'] as const;
const maxName = 255;
/** Unfinished files. No client can name one, since names do not begin with a dot. */
const draftStart = '.save-';
/** What a saved state of any version begins with. */
const stateStart = Buffer.from('RECUAKV');
/** Drafts that nobody has written to for this long are left over. */
const abandonedMs = 3_600_000;

interface Asked {
  model: string | undefined;
  /** Undefined if not given; erasing needs none. */
  filename: string | undefined;
  keepAliveMs: number | undefined;
}

export function slotFiles({ poolFor, config, staysAnyway, traffic, clientOf }: Gateway): RequestHandler {
  /** By model. */
  const turns = new Map<string, ClientTurns>();
  return async (req: Request, res: Response) => {
    refusePages(req, res, () => undefined);
    if (config.slotSavePath === '') {
      throw new RecuaError('not_implemented', 'This server has no folder for saved conversations; start it with --slot-save-path.');
    }
    const action = new Query(req).word('action', actions);
    if (action === undefined) throw wrongValue('action', 'save, restore or erase', undefined);
    const { asked: { model, filename, keepAliveMs }, told } = readAll(req, readSlotBody);
    if (action !== 'erase' && filename === undefined) throw wrongValue('filename', 'the name of a file', undefined);
    const signal = traffic.enter(res);
    const client = clientOf(res);
    const given = String(req.params['id']);
    if (!/^\d{1,9}$/.test(given)) throw wrongValue('id', 'a whole number', given);
    const id = Number(given);
    const { warnings: ofStay, ...stay } = residence(keepAliveMs, staysAnyway(res));
    const leased = poolFor(res).lease(model ?? new Query(req).text('model'), { signal, ...stay });
    const lease = await leased.catch((thrown: unknown) => { throw failureOf(thrown, signal); });
    try {
      let startMs = performance.now();
      const warnings = [...told.warnings ?? [], ...ofStay, sayOf(action)];
      if (action === 'erase') {
        await untilAborted(lease.engine.forget(), signal);
        return void res.json({ id_slot: id, warnings });
      }
      const path = join(resolve(config.slotSavePath), filename!);
      let found: Stats | undefined;
      const shown = (text: string): string => text.replaceAll(path, filename!);
      const turn = turns.get(lease.id) ?? new ClientTurns(() => new RecuaError('queue_full', 'Too many states wait to be saved or restored; try again in a moment.'));
      turns.set(lease.id, turn);
      const work = turn.inTurn({ client, res }, async () => {
        signal.throwIfAborted();
        startMs = performance.now();
        found = await stat(path).catch(() => undefined);
        if (found && !found.isFile()) throw wrongValue('filename', 'the name of a file, not of a folder or a pipe', filename);
        if (action === 'save' && found && !await isState(path)) throw wrongValue('filename', 'a new name or that of a saved state: there is another file of this name', filename);
        if (action === 'restore' && !found) throw new RecuaError('file_not_found', `There is no saved state ${JSON.stringify(filename)}.`, { param: 'filename' });
        return action === 'save' ? await saveTo(path, lease.engine) : await lease.engine.restoreState(path);
      });
      const { tokens, sizeBytes, reason, isBusy } = await untilAborted(work, signal).catch((thrown: unknown) => {
        throw asShown(thrown, shown);
      });
      if (isBusy) throw new RecuaError('queue_full', `The state cannot be ${action === 'save' ? 'saved' : 'restored'} now: ${reason} Try again in a moment.`);
      if (reason !== undefined) throw new RecuaError('invalid_value', `The state cannot be restored: ${shown(reason)}`, { param: 'filename' });
      // Else a client that restores the file later would get what an older request saved.
      if (action === 'save' && tokens === 0) warnings.push(`Nothing was saved: there is no idle conversation. ${found ? 'The file of that name is as it was.' : 'There is no file of that name.'}`);
      const ms = Math.round((performance.now() - startMs) * 1_000) / 1_000;
      res.json({
        id_slot: id, filename,
        ...(action === 'save' ? { n_saved: tokens, n_written: sizeBytes, timings: { save_ms: ms } } : { n_restored: tokens, n_read: sizeBytes, timings: { restore_ms: ms } }),
        warnings,
      });
    } finally {
      lease.release();
    }
  };
}

/**
 * The draft has a name of its own: one made from the file's would be too long, or a client's file.
 */
async function saveTo(path: string, engine: Pick<Engine, 'saveState'>): Promise<SavedState> {
  const draft = join(dirname(path), draftName(draftStart));
  // What an engine left that died while it wrote.
  await removeDrafts(dirname(path), (_name, changedMs) => Date.now() - changedMs > abandonedMs);
  try {
    const saved = await engine.saveState(draft);
    if (saved.tokens > 0) await rename(draft, path);
    return saved;
  } catch (thrown) {
    await removeDrafts(dirname(path), (name) => join(dirname(path), name).startsWith(draft));
    const { code, message, param, details } = RecuaError.from(thrown);
    throw new RecuaError(code, message.replaceAll(draft, path), { param, details, cause: thrown });
  }
}

/** Whether the file holds a saved state, or nothing. */
async function isState(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(stateStart.length), 0, stateStart.length, 0);
    return bytesRead === 0 || buffer.equals(stateStart);
  } finally {
    await file.close();
  }
}

/** Errors are ignored: the save itself reports a folder that cannot be used. */
async function removeDrafts(folder: string, goes: (name: string, changedMs: number) => boolean): Promise<void> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => isDraft(name, draftStart));
  await Promise.all(names.map(async (name) => {
    const path = join(folder, name);
    const found = await stat(path);
    if (found.isFile() && goes(name, found.mtimeMs)) await rm(path, { force: true });
  }).map((removed) => removed.catch(() => undefined)));
}

/** The error without the folder, which only the log gets. */
function asShown(thrown: unknown, shown: (text: string) => string): RecuaError {
  const error = RecuaError.from(thrown);
  const { code, message, param, details } = error;
  return shown(message) === message ? error : new RecuaError(code, shown(message), { param, details, cause: error });
}

function sayOf(action: (typeof actions)[number]): string {
  if (action === 'save') return 'The slot has no effect: of the idle conversations in the KV cache, the one used last is saved.';
  return action === 'restore' ? 'The slot has no effect: the state is found by its tokens.' : 'The slot has no effect: all idle conversations are dropped.';
}

export function readSlotBody(body: Fields): Asked {
  const { name, keepAliveMs } = readAdmission(body);
  const filename = body.string('filename');
  if (filename !== undefined && (filename.length > maxName || !/^[\w][\w .-]*$/.test(filename))) {
    throw wrongValue('filename', 'a name of letters, digits, spaces and . _ -, without a folder', filename);
  }
  return { model: name, filename, keepAliveMs };
}
