// Loads a model by name: finds and checks the file, starts an engine, and waits until it is ready.
import type { Engine, EngineSettings, EngineState, Log } from '../engine/api.js';
import { startEngine } from '../engine/gateway/client.js';
import type { EngineOptions } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { engineOptions } from '../models/needs/engine-options.js';
import { ensureFits } from '../models/needs/fit.js';
import { readModelFile } from '../models/gguf/model-file.js';
import { findModel, markUsed } from '../models/store.js';
import { telling } from './listeners.js';
import { Model } from './model.js';
import { readLoadOptions, type LoadOptions } from './options.js';

/**
 * Loads a model.
 *
 * ```ts
 * const model = await loadModel('builtin');
 * console.log((await model.chat('Hello!')).content);
 * await model.dispose();
 * ```
 *
 * @param name the path of a GGUF file (for a split model, its first part), a model in the store
 *   (`owner/repo`, `owner/repo:Q4_K_M`, a file name, an alias; `recua pull` adds models to the
 *   store), or `builtin`, the small model that comes with Recua
 * @throws RecuaError (as a rejection) `model_not_found`, `ambiguous_model`, `file_unreadable`,
 *   `invalid_gguf`, `model_unusable`, `model_too_large`, `addon_missing`, `backend_unusable`,
 *   `device_not_found`, `gpu_unavailable`, `sandbox_unavailable`, `cancelled`, and `invalid_type`
 *   or `invalid_value` for options
 */
export async function loadModel(name: string, options: LoadOptions = {}): Promise<Model> {
  if (typeof name !== 'string') throw new RecuaError('invalid_type', `Expected the name of a model, got ${typeof name}.`, { param: 'name' });
  const { engine: given, isolated, onProgress, onLog, signal } = readLoadOptions(options);
  stopIf(signal);
  const stored = await findModel(name);
  const file = await readModelFile(stored.path);
  stopIf(signal);
  await markUsed(stored);

  let model: Model | undefined;
  const log: Log = (level, text) => {
    telling(() => {
      onLog?.(level, text);
      model?.emit('log', level, text);
    });
  };
  const onState = (state: EngineState): void => {
    telling(() => {
      if (model) model.heed(state);
      else if (state.state === 'loading') onProgress?.(state.fraction);
    });
  };
  const warning = ensureFits(file, given);
  if (warning !== undefined) log('warn', warning);
  const engine = await start(engineOptions(stored.path, given, file), { log, onState }, isolated);
  const abort = (): void => void engine.close(0);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    stopIf(signal);
    const description = await engine.ready();
    stopIf(signal);
    model = new Model({ engine, description, path: stored.path, served: stored });
    telling(() => onProgress?.(1));
    return model;
  } catch (thrown) {
    await engine.close(0);
    stopIf(signal);
    throw thrown;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** For engines inside a user's program, which may save state files anywhere. */
export const ofProgram = { keepAlive: false, autoSandbox: false };

async function start(options: EngineOptions, settings: EngineSettings, isolated: boolean): Promise<Engine> {
  if (isolated) return startEngine(options, { ...settings, ...ofProgram });
  // Imported only here, so that an isolated model does not load the addon into this process.
  const { startLocalEngine } = await import('../engine/in-process/local.js');
  return startLocalEngine(options, settings);
}

function stopIf(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new RecuaError('cancelled', 'The loading of the model was cancelled.', { cause: signal.reason });
}
