// What happens to a pool of models, and what is to be done about it. Pure; between
// engine/leases/leases and who drives it.
import type { PlainError } from '../../errors.js';
import type { Bytes } from './budget.js';
import type { ModelPlan } from './model-entry.js';

export type LeaseEvent =
  /**
   * A model's file and settings were looked at; needed once before all else about it, then before
   * it is loaded again.
   */
  | { kind: 'planned'; model: string; plan: ModelPlan }
  /**
   * Someone wants to work with the model. `explicit`: the load itself is wanted, so that a failure
   * of a moment ago is no answer.
   */
  | { kind: 'request'; model: string; request: number; keepAliveMs?: number | undefined; explicit?: boolean }
  /** A request that waits is no longer wanted. */
  | { kind: 'cancel'; model: string; request: number }
  | { kind: 'release'; model: string; request: number }
  /** The process has the model; `measured` is what it takes there, as far as that is known. */
  | { kind: 'loaded'; model: string; measured?: Bytes | undefined }
  /** Measured again, after work. */
  | { kind: 'measured'; model: string; bytes: Bytes }
  /** It cannot be loaded; the process may live yet. */
  | { kind: 'failed'; model: string; error: PlainError }
  /** The process died while it served, and is not started again. */
  | { kind: 'died'; model: string; error: PlainError }
  /** The process that was to be ended is gone. */
  | { kind: 'ended'; model: string }
  | { kind: 'unload'; model: string }
  /** Time passed. */
  | { kind: 'tick' };

export type LeaseCommand =
  | { kind: 'load'; model: string }
  /** End the process, whatever it does; `ended` is told when it is gone. */
  | { kind: 'unload'; model: string }
  | { kind: 'grant'; model: string; request: number }
  | { kind: 'refuse'; model: string; request: number; why: Refusal }
  /** Tell of a tick then, instead of any time said before. */
  | { kind: 'wake'; atMs: number };

export type Refusal =
  | { kind: 'failed'; error: PlainError }
  | { kind: 'queue_full'; most: number }
  /**
   * It needs more than there is; `pinned` is what models take that are never unloaded. `left`: the
   * budget would do, but the machine has only so much for it now, if all others left that may.
   */
  | { kind: 'too_large'; need: Bytes; budget: Bytes; pinned: Bytes; left?: Bytes | undefined; maxModels: number; pinnedModels: number };
