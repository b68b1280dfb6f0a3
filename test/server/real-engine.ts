// The app over the built-in model in this process, for tests that need a real engine.
import type { Test } from 'tap';
import type { Engine } from '#recua/engine/api.js';
import { startLocalEngine } from '#recua/engine/in-process/local.js';
import type { EngineOptions } from '#recua/engine/protocol.js';
import { builtinPath } from '#recua/models/store.js';
import { engineDefaults } from '#recua/settings/config.js';
import { startApp, type AppUnderTest } from './app-under-test.js';

export async function startRealApp(t: Test, options: Partial<EngineOptions> = {}): Promise<AppUnderTest<Engine>> {
  const engine = startLocalEngine({
    ...engineDefaults,
    modelPath: builtinPath,
    threads: 1,
    threadsBatch: 1,
    parallel: 4,
    contextSize: 2_048,
    ...options,
  });
  t.teardown(() => engine.close(0));
  await engine.ready();
  return await startApp(t, {}, engine);
}
