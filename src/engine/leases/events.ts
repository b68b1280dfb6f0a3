// Events of a pool of models, and the commands that follow. Pure; the interface between
// engine/leases/leases and its driver.
import type { PlainError } from '../../errors.js';
import type { Bytes } from './budget.js';
import type { ModelPlan } from './model-entry.js';

export type LeaseEvent =
  /**
   * A model's file and settings were read. Must come first for each model, and again before each
   * load.
   */
  | { kind: 'planned'; model: string; plan: ModelPlan }
  /**
   * A request for the model. `explicit`: it wants the load itself, so a recent failure does not
   * refuse it. `client`: who sent it; a full queue is shared among clients. `priority`: below 0, it
   * takes no place from others. `again`: it was granted
   * and recalled, so no full queue refuses it.
   */
  | { kind: 'request'; model: string; request: number; client?: string | undefined; priority?: number | undefined; keepAliveMs?: number | undefined; explicit?: boolean; again?: boolean }
  /** A waiting request is cancelled. */
  | { kind: 'cancel'; model: string; request: number }
  | { kind: 'release'; model: string; request: number }
  /** The process has loaded the model; `measured`: its memory, as far as known. */
  | { kind: 'loaded'; model: string; measured?: Bytes | undefined }
  /** Measured again, after work. */
  | { kind: 'measured'; model: string; bytes: Bytes }
  /** The load failed; the process may still be alive. */
  | { kind: 'failed'; model: string; error: PlainError }
  /** Its file changed during the load and was planned again; its requests wait for another load. */
  | { kind: 'outdated'; model: string }
  /**
   * The process died while it served, and is not restarted; nor is another load tried for that long
   * if nothing has changed.
   */
  | { kind: 'died'; model: string; error: PlainError; pauseMs?: number }
  /** The process that `unload` was to end is gone. */
  | { kind: 'ended'; model: string }
  | { kind: 'unload'; model: string }
  /** Time passed. */
  | { kind: 'tick' };

export type LeaseCommand =
  | { kind: 'load'; model: string }
  /** End the process, whatever it does; send `ended` when it is gone. */
  | { kind: 'unload'; model: string }
  | { kind: 'grant'; model: string; request: number }
  /**
   * The model has to leave for another: what has not begun of its requests should release it and
   * ask again.
   */
  | { kind: 'recall'; model: string }
  /** The recalled model need not leave after all. */
  | { kind: 'stay'; model: string }
  | { kind: 'refuse'; model: string; request: number; why: Refusal }
  /** Send a tick at this time; replaces the previous wake. */
  | { kind: 'wake'; atMs: number };

export type Refusal =
  | { kind: 'failed'; error: PlainError }
  | { kind: 'queue_full'; most: number }
  /** It waited in a full queue, for a client with more requests than the one that came. */
  | { kind: 'gave_way' }
  /**
   * The model needs more than there is. `pinned`: memory of models that are never unloaded. `left`:
   * the budget is sufficient, but this is all that the machine has for it now, even if all other
   * unpinned models left.
   */
  | { kind: 'too_large'; need: Bytes; budget: Bytes; pinned: Bytes; left?: Bytes | undefined; maxModels: number; pinnedModels: number };
