// Waiting for a model to load: a progress line on stderr, for api, run and chat, and the engine's
// notes, for run and chat.
import type { Engine } from '../../engine/api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { misuse } from '../flags/flags.js';
import { LoadingLine, say } from './output.js';

/** Shows the engine's progress until the promise settles. */
export async function showLoading<T>(engine: Engine, label: string, quiet: boolean, waiting: Promise<T>): Promise<T> {
  const line = new LoadingLine(label, quiet);
  const timer = setInterval(() => {
    const { state } = engine;
    if (state.state === 'loading' || state.state === 'restarting') line.show(state.fraction);
  }, 100);
  try {
    return await waiting;
  } finally {
    clearInterval(timer);
    line.end();
  }
}

/** A context too small for any chat is a command line mistake. Throws `invalid_usage`. */
export function checkContext({ contextSize, leastContext }: ModelDescription): void {
  if (contextSize >= leastContext) return;
  throw misuse(`Expected a context of at least ${leastContext} tokens (-c), got ${contextSize}: the shortest chat takes ${leastContext - 1} with this model's template, and an answer takes at least one.`);
}

/** Waits until the engine is ready. An abort throws `cancelled`. */
export async function waitForModel(engine: Engine, label: string, quiet: boolean, signal: AbortSignal): Promise<ModelDescription> {
  let stop: (() => void) | undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(new RecuaError('cancelled', 'Stopped while the model was loading.'));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  try {
    const model = await showLoading(engine, label, quiet, Promise.race([engine.ready(), stopped]));
    checkContext(model);
    if (!quiet) for (const note of model.notes) say(`Note: ${note}`);
    return model;
  } finally {
    if (stop) signal.removeEventListener('abort', stop);
  }
}
