// The wait for a model to load, as `run` and `chat` show it: a line on stderr, then what the engine has to say.
import type { Engine } from '../engine/api.js';
import type { ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { LoadingLine, say } from './output.js';

/** Waits until the engine is ready; an abort ends the wait with `cancelled`. */
export async function waitForModel(engine: Engine, label: string, quiet: boolean, signal: AbortSignal): Promise<ModelDescription> {
  const line = new LoadingLine(label, quiet);
  const timer = setInterval(() => {
    const { state } = engine;
    if (state.state === 'loading' || state.state === 'restarting') line.show(state.fraction);
  }, 100);
  let stop: (() => void) | undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(new RecuaError('cancelled', 'Stopped while the model was loading.'));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  try {
    const model = await Promise.race([engine.ready(), stopped]);
    line.end();
    if (!quiet) for (const note of model.notes) say(`Note: ${note}`);
    return model;
  } finally {
    if (stop) signal.removeEventListener('abort', stop);
    clearInterval(timer);
    line.end();
  }
}
