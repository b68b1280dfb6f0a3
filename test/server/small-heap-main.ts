// A server in its own process, whose engine never begins with long prompts. body-memory.test starts
// it with a small heap.
import { makeConfig } from '#recua/settings/config.js';
import type { Answer } from '#recua/engine/api.js';
import type { ChatRequest } from '#recua/engine/protocol.js';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { listen } from '#recua/server/listen.js';
import { FakeEngine } from './fake-engine.js';

class SlowEngine extends FakeEngine {
  override chat(...[request, ...rest]: Parameters<FakeEngine['chat']>): Answer {
    this.acceptAfter = isLong(request) ? new Promise(() => undefined) : Promise.resolve();
    return super.chat(request, ...rest);
  }
}

function isLong({ messages }: ChatRequest): boolean {
  return messages.length > 1_000;
}

const model = { id: 'owner/model', aliases: [], createdSeconds: 1 };
const bodyMemoryBytes = Number(process.env['TEST_BODY_MEMORY'] ?? 0);
const { url } = await listen({ pool: singleModel(new SlowEngine(), model), config: makeConfig({ port: 0, bodyMemoryBytes }) });
process.send?.(url);
