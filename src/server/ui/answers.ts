// Answers to requests that only the page makes: recent requests, running answers, the settings,
// unfinished downloads and the hub's models. Keyed by the name below /ui/. Called by page.
import { randomUUID } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { socketPath } from '../../settings/address.js';
import { configSettings, defaults, type Config } from '../../settings/config.js';
import type { Setting } from '../../settings/kinds.js';
import { machineMemory } from '../../system/machine-memory.js';
import type { Gateway } from '../http/gateway.js';
import { keyOf } from '../access/guard.js';
import { refuseOthers, refusePages, refuseRemote } from '../access/pages.js';
import { searchOf } from '../http/query.js';
import type { RecentRequests } from '../http/recent.js';
import type { ModelShelf } from '../http/shelf.js';
import { failureOf } from '../http/traffic.js';

const longestQuery = 200;

export type Answers = ReadonlyMap<string, RequestHandler>;

/** Each handler refuses by throwing. */
export function answersFor(gateway: Gateway, recent: RecentRequests, needsKey: RequestHandler): Answers {
  const { config, poolFor, running, shelf, savedChats } = gateway;
  const guarded = (handler: (req: Request, res: Response) => unknown): RequestHandler => async (req, res) => {
    needsKey(req, res, () => undefined);
    refusePages(req, res, () => undefined);
    res.set('Cache-Control', 'no-store');
    await handler(req, res);
  };
  const usableBy = async (res: Response): Promise<Set<string>> =>
    new Set((await poolFor(res).list()).flatMap(({ id, aliases }) => [id, ...aliases]));
  /** A key is told the names of other keys only with `admin`, and a limited one only its models. */
  const shownTo = async <Asked extends { model?: string; key?: string }>(res: Response, all: readonly Asked[]): Promise<Asked[]> => {
    const asking = keyOf(res);
    const usable = asking?.models && await usableBy(res);
    return all.filter(({ model }) => !usable || model === undefined || usable.has(model))
      .map((one) => (!asking || asking.admin || one.key === asking.name ? one : { ...one, key: undefined }));
  };
  // Changes with each start, so that the page knows whether its answer can still exist.
  const server = { id: randomUUID() };
  return new Map<string, RequestHandler>([
    // Whether this client may use the saved chats: asking them for it would fill its console.
    ['server', guarded((req, res) => res.json({ ...server, sessions: savedChats !== undefined && isLetThrough(refuseOthers, req, res) }))],
    ['requests', guarded(async (_req, res) => res.json({ object: 'list', data: await shownTo(res, recent.all) }))],
    ['running', guarded(async (_req, res) => res.json({ data: await shownTo(res, running.all), totals: running.totals }))],
    ['settings', guarded((_req, res) => res.json({ data: shownSettings(config), memory: machineMemory() }))],
    ['aliases', guarded(async (_req, res) => {
      const usable = await usableBy(res);
      const [given, own] = await Promise.all([shelf?.aliases() ?? [], shelf?.ownNames() ?? []]);
      // A key that is limited to some models is not told the names of others.
      const limited = keyOf(res)?.models !== undefined;
      res.json({
        data: limited ? given.filter(({ name }) => usable.has(name)) : given,
        own: limited ? own.filter((name) => usable.has(name)) : own,
      });
    })],
    ['unfinished', guarded(async (req, res) => {
      // Only a client on this machine may go on with them; and see `aliases` for limited keys.
      const isShown = isLetThrough(refuseRemote, req, res) && keyOf(res)?.models === undefined;
      res.json({ data: isShown ? await shelf?.unfinished() ?? [] : [] });
    })],
    ['hub', guarded(async (req, res) => {
      // The hub's access token may open private repositories.
      refuseRemote(req, res, () => undefined);
      if (!shelf) throw new RecuaError('model_fixed', 'This server has the models of its program, so it brings none from the hub.');
      res.json(await askHub(shelf, req, res));
    })],
  ]);
}

function isLetThrough(middleware: RequestHandler, req: Request, res: Response): boolean {
  try {
    middleware(req, res, () => undefined);
    return true;
  } catch {
    return false;
  }
}

async function askHub(shelf: ModelShelf, req: Request, res: Response): Promise<object> {
  const asked = searchOf(req);
  const search = asked.get('search') ?? '';
  const repository = asked.get('repository') ?? '';
  if ((search === '') === (repository === '')) throw new RecuaError('invalid_value', 'Expected ?search=words or ?repository=owner/name.');
  if (search.length > longestQuery || repository.length > longestQuery) throw new RecuaError('invalid_value', `Expected at most ${longestQuery} characters.`);
  const left = new AbortController();
  res.once('close', () => left.abort(new RecuaError('cancelled', 'The client went away before the answer was complete.')));
  try {
    return search === '' ? { data: await shelf.offers(repository, left.signal) } : { data: await shelf.search(search, left.signal) };
  } catch (thrown) {
    throw failureOf(thrown, left.signal);
  }
}

interface ShownSetting {
  name: string;
  /** 'set' for secrets and paths. */
  value: string;
  isDefault: boolean;
  help: string;
}

/** Values that the page does not reveal: paths, and addresses that may have a password. */
const places: readonly (string | undefined)[] = ['file', 'folder', 'url'];

/** All settings of the server that have a flag. */
function shownSettings(config: Readonly<Config>): ShownSetting[] {
  return Object.entries<Setting>(configSettings).flatMap(([key, { kind, flag }]) => {
    // The page shows the models themselves.
    if (!flag || flag.value === 'model') return [];
    const value: unknown = config[key as keyof Config];
    const isDefault = value === defaults[key as keyof Config];
    const isHidden = flag.secret || flag.file || places.includes(flag.value) || socketPath(String(value)) !== undefined;
    const shown = isHidden ? (value === '' ? 'not set' : 'set')
      : kind === 'switch' ? (value === !flag.names[0].startsWith('--no-') ? 'on' : 'off')
        : typeof value === 'number' && flag.unit !== undefined ? String(value / flag.unit)
          : typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : JSON.stringify(value);
    const unit = flag.unit !== undefined && flag.value !== undefined ? ` ${flag.value}` : '';
    return [{ name: flag.names[0], value: shown === '' ? 'not set' : `${shown}${unit}`, isDefault, help: flag.help }];
  });
}
