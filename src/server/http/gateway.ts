// What all routes share: the models, the settings, the running requests, the log.
// Built by app; read by every route. Gateway process.
import type { Response } from 'express';
import type { Config } from '../../settings/config.js';
import type { ModelPool } from '../../engine/pool-api.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import type { KeptFolder } from '../kept/kept-folder.js';
import type { Owner } from '../kept/owner.js';
import type { Inner } from './inner.js';
import type { SavedChats } from './saved-chats.js';
import type { ModelShelf } from './shelf.js';
import type { LiveChats } from './live-chats.js';
import type { RunningAnswers } from './running.js';
import type { Traffic } from './traffic.js';

/** What is known of a request beside the sentence; undefined is left out. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export type Log = (level: 'debug' | 'info' | 'warn' | 'error', text: string, fields?: LogFields) => void;

export interface Gateway {
  readonly pool: ModelPool;
  /** The models as the API key of a request sees them. */
  readonly poolFor: (res: Response) => ModelPool;
  readonly config: Readonly<Config>;
  /** What requests for the model of that id mean where they say nothing. */
  readonly defaultsOf: (id: string) => RequestDefaults;
  readonly traffic: Traffic;
  /** What outlives the server. */
  readonly kept: KeptFolder;
  /** Requests of its own. */
  readonly inner: Inner;
  /** The store of models; undefined where a program serves models of its own. */
  readonly shelf: ModelShelf | undefined;
  /** Those of `recua chat`; undefined where the server does not show them. */
  readonly savedChats: SavedChats | undefined;
  readonly live: LiveChats;
  /** Who asks, for taking turns: the API key's name, or else the address. */
  readonly clientOf: (res: Response) => string;
  /** Whose is what a request makes, and which of the rest it sees. */
  readonly ownerOf: (res: Response) => Owner;
  /** No request of this API key has a higher priority. */
  readonly mostPriority: (res: Response) => number;
  /** What keeps its prompts apart from those of others. */
  readonly saltOf: (res: Response) => string | undefined;
  /** Why how long models stay is not for this request to say; undefined where it is. */
  readonly staysAnyway: (res: Response) => string | undefined;
  /** Its tokens are counted as they come. */
  readonly countsTokens: (res: Response) => boolean;
  readonly running: RunningAnswers;
  readonly log: Log;
}
