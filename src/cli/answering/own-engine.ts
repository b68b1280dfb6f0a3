// An answerer with its own engine process. Started by open.ts.
import type { Answer, Engine, EngineSettings } from '../../engine/api.js';
import { startEngine } from '../../engine/gateway/client.js';
import type { ChatRequest, EngineOptions, ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { placeText } from '../devices.js';
import { waitForModel } from '../terminal/model-loading.js';
import type { Answerer, KvFiles, Recovery, TokenCounts } from './answerer.js';

export interface OwnEngineOptions {
  name: string;
  id: string;
  options: EngineOptions;
  /** Where the engine's log goes. */
  settings: EngineSettings;
  bytesPerToken: number | undefined;
  quiet: boolean;
  /** Refuse an embedding-only model once it is loaded, not at the first message. */
  chats: boolean;
}

export class OwnEngine implements Answerer {
  readonly name: string;
  readonly id: string;
  readonly url = undefined;
  readonly kv: KvFiles;
  readonly description: string;
  readonly contextSize: number;
  readonly place: string | undefined;
  readonly #engine: Engine;

  /** Resolves when the model is loaded. An abort throws `cancelled`. */
  static async start(given: OwnEngineOptions, signal: AbortSignal): Promise<OwnEngine> {
    const engine = startEngine(given.options, given.settings);
    try {
      const model = await waitForModel(engine, `Loading ${given.id}`, given.quiet, signal);
      if (given.chats && !model.canGenerate) throw new RecuaError('chat_unsupported', `${given.id} only embeds; it cannot chat.`);
      return new OwnEngine(engine, model, given);
    } catch (thrown) {
      await engine.close(0);
      throw thrown;
    }
  }

  private constructor(engine: Engine, model: ModelDescription, { name, id, bytesPerToken }: OwnEngineOptions) {
    this.#engine = engine;
    this.description = model.description;
    this.contextSize = model.contextSize;
    this.place = model.offload.devices.length > 0 ? placeText(model) : undefined;
    this.name = name;
    this.id = id;
    this.kv = {
      bytesPerToken,
      save: async (path) => (engine.state.state === 'ready' ? await engine.saveState(path) : undefined),
      restore: (path) => engine.restoreState(path),
    };
  }

  chat(request: ChatRequest, signal: AbortSignal): Answer {
    return this.#engine.chat(request, signal);
  }

  async count(request: ChatRequest, text: string, signal: AbortSignal): Promise<TokenCounts | undefined> {
    return await Promise.all([this.#engine.render(request, signal), this.#engine.tokenize(text, false, false, signal)])
      .then(([{ tokenCount }, tokens]) => ({ promptTokens: tokenCount, completionTokens: tokens.length }), () => undefined);
  }

  async forget(): Promise<void> {
    await this.#engine.forget();
  }

  async recover({ code }: RecuaError, signal: AbortSignal): Promise<Recovery> {
    if (code !== 'model_crashed') return 'unharmed';
    await waitForModel(this.#engine, 'Loading the model again', false, signal);
    return 'back';
  }

  async close(): Promise<void> {
    await this.#engine.close(0);
  }
}
