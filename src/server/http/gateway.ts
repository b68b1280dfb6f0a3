// What all routes share: the engine, the settings, the served model's names, the running requests, the log.
// Built by app; read by every route. Gateway process.
import type { Config } from '../../settings/config.js';
import type { Engine } from '../../engine/api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import type { ServedModel } from './served-model.js';
import type { Traffic } from './traffic.js';

export type Log = (level: 'debug' | 'info' | 'warn' | 'error', text: string) => void;

export interface Gateway {
  readonly engine: Engine;
  readonly config: Readonly<Config>;
  readonly served: ServedModel;
  readonly traffic: Traffic;
  readonly log: Log;
}

/** The loaded model, or the coded error that tells why there is none now. */
export function readyModel(engine: Engine): ModelDescription {
  const state = engine.state;
  switch (state.state) {
    case 'ready':
      return state.model;
    case 'loading':
      throw new RecuaError('model_loading', `The model is loading (${Math.round(state.fraction * 100)} %); try again in a moment.`);
    case 'restarting':
      throw new RecuaError('model_loading', 'The model is being loaded again after a crash; try again in a moment.');
    case 'failed':
      throw state.error;
    case 'closed':
      throw new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
  }
}
