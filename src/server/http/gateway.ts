// What all routes share: the models, the settings, the running requests, the log. Built by app;
// read by every route. Gateway process.
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

/** Structured fields of a log line. Undefined fields are left out. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export type Log = (level: 'debug' | 'info' | 'warn' | 'error', text: string, fields?: LogFields) => void;

export interface Gateway {
  readonly pool: ModelPool;
  /** The models that the API key of a request may use. */
  readonly poolFor: (res: Response) => ModelPool;
  readonly config: Readonly<Config>;
  /** Defaults for fields that requests for this model leave out. */
  readonly defaultsOf: (id: string) => RequestDefaults;
  readonly traffic: Traffic;
  /** The models that are loaded at the start are not there yet. */
  readonly isStarting: () => boolean;
  /** The folder for data that outlives the server. */
  readonly kept: KeptFolder;
  /** Requests that the server makes to itself. */
  readonly inner: Inner;
  /** The store of models; undefined if a program serves its own models. */
  readonly shelf: ModelShelf | undefined;
  /** The saved chats of `recua chat`; undefined if the server does not show them. */
  readonly savedChats: SavedChats | undefined;
  readonly live: LiveChats;
  /** The client, for fair queuing: the name of the API key, or else the address. */
  readonly clientOf: (res: Response) => string;
  /** The owner of data that a request creates, which also decides what existing data it sees. */
  readonly ownerOf: (res: Response) => Owner;
  /** Name of the request's API key, if it has one. */
  readonly askedBy: (res: Response) => string | undefined;
  /** Whether requests of the API key of that name would be let in. */
  readonly hasKey: (name: string) => boolean;
  /** Highest priority for requests of this API key. */
  readonly mostPriority: (res: Response) => number;
  /** Salt that separates its cached prompts from those of other keys. */
  readonly saltOf: (res: Response) => string | undefined;
  /** Why this request's `keep_alive` has no effect; undefined if it has one. */
  readonly staysAnyway: (res: Response) => string | undefined;
  /** Whether its tokens must be counted while they are generated. */
  readonly countsTokens: (res: Response) => boolean;
  /** This request only watches one of the server's own, which counts as running in its stead. */
  readonly leaveRunning: (res: Response) => void;
  readonly running: RunningAnswers;
  readonly log: Log;
}
