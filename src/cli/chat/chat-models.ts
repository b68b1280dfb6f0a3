// The model that answers in a chat, and how to replace it: by another model, or by another way to
// run the same model, if a server went away or cannot do what the chat needs. If the new model does
// not load, the old one keeps answering. Created by commands/chat.ts, used by the dialogue.
import { makeConfig } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import { RecuaError } from '../../errors.js';
import { readInventory } from '../../models/lookup.js';
import { findPlaces } from '../../models/places.js';
import { markUsed, nameAnywhere, runnableModels } from '../../models/store.js';
import type { Answerer } from '../answering/answerer.js';
import { findAndRead } from '../answering/find-model.js';
import { openAnswerer } from '../answering/open.js';
import type { OpenOptions, ReadModel } from '../answering/open.js';
import { loadThere } from '../answering/running-models.js';
import type { RunningModel } from '../answering/running-models.js';
import { ServedModel } from '../answering/served-model.js';
import { bytesPerToken, chooseContext, hasRoomFor } from './context-size.js';
import type { ContextChoice } from './context-size.js';

export interface ChatModel extends ReadModel {
  /** Undefined if the user set the context size. */
  context: ContextChoice | undefined;
}

/** How this chat loads models, from the command line. */
export interface LoadSettings {
  config: Partial<Config>;
  /** Make the context as large as memory allows. */
  choosesContext: boolean;
  open: OpenOptions;
}

export class ChatModels {
  readonly #settings: LoadSettings;
  readonly #hasRoomFor: typeof hasRoomFor;
  #current: Answerer | undefined;
  /** File of the current model. */
  #path = '';
  /** The answerer is gone for good: the next turn needs another. */
  #isGone = false;

  constructor(settings: LoadSettings, hasRoom = hasRoomFor) {
    this.#settings = settings;
    this.#hasRoomFor = hasRoom;
  }

  /** The current answerer. Throws if none was opened yet. */
  get current(): Answerer {
    if (!this.#current) throw new RecuaError('closed', 'No model was opened.');
    return this.#current;
  }

  /** Finds and reads a model, which shows that its name and its file are valid. */
  async read(asked: string, own: boolean, signal: AbortSignal, quiet = true): Promise<ChatModel> {
    const { config, choosesContext } = this.#settings;
    const { name, model, file } = await findAndRead(asked, { own: this.#options(own).own, signal, quiet });
    await markUsed(model);
    const whole = makeConfig({ ...config, parallel: 1, model: model.path });
    const context = choosesContext ? chooseContext(file, whole) : undefined;
    return {
      name: nameAnywhere(name, model), id: model.id, path: model.path, file, context,
      config: context ? makeConfig({ ...whole, contextSize: context.size }) : whole,
      bytesPerToken: bytesPerToken(file, whole),
    };
  }

  /** Opens the first model of this chat. */
  async open(model: ChatModel, own: boolean, signal: AbortSignal): Promise<Answerer> {
    return await this.#replace(model, await openAnswerer(model, this.#options(own), signal));
  }

  /** Names for `switchTo`: the models in the store, the built-in one, and all aliases. */
  async names(): Promise<string[]> {
    const inventory = await readInventory(findPlaces());
    const models = await runnableModels(inventory);
    return [...models.map(({ id }) => id), ...inventory.aliases.keys()];
  }

  /**
   * Makes another model answer from now on. First asks the current server, which may load it; then
   * any server that has it loaded. Resolves to undefined if that model already answers.
   */
  async switchTo(name: string, own: boolean, signal: AbortSignal): Promise<Answerer | undefined> {
    const model = await this.read(name, own, signal);
    const before = this.current;
    if (model.path === this.#path && !this.#isGone) return undefined;
    const there = this.#isGone || this.#options(own).own ? undefined : await loadBy(before, model, signal);
    if (there) return await this.#replace(model, new ServedModel(model, there));
    return await this.#openBeside(before, model, own, signal);
  }

  /** Call when the answerer is gone for good. */
  lose(): void {
    this.#isGone = true;
  }

  /**
   * Makes sure that the model can answer. Opens it again if the answerer is gone, or if it is a
   * server and only an engine of this process will do. Resolves to the new answerer, if any.
   */
  async ensure(own: boolean, signal: AbortSignal): Promise<Answerer | undefined> {
    const { name, url } = this.current;
    if (!this.#isGone && !(own && url !== undefined)) return undefined;
    const model = await this.read(name, own, signal);
    return await this.#replace(model, await openAnswerer(model, this.#options(own), signal));
  }

  async close(): Promise<void> {
    await this.#current?.close();
  }

  #options(own: boolean): OpenOptions {
    const { open } = this.#settings;
    return { ...open, own: open.own || own };
  }

  async #replace({ path }: ChatModel, next: Answerer): Promise<Answerer> {
    await this.#current?.close();
    this.#current = next;
    this.#path = path;
    this.#isGone = false;
    return next;
  }

  /** If memory has no room for two engines, closes the old one before it opens the new one. */
  async #openBeside(before: Answerer, model: ChatModel, own: boolean, signal: AbortSignal): Promise<Answerer> {
    const wanted = model.context ? { ...model.config, contextSize: 0 } : model.config;
    if (before.url !== undefined || this.#hasRoomFor(model.file, wanted)) {
      return await this.#replace(model, await openAnswerer(model, this.#options(own), signal));
    }
    await before.close();
    this.#isGone = true;
    try {
      // Read again: with the old model's memory free, the context may be larger.
      const roomy = await this.read(model.name, own, signal);
      return await this.#replace(roomy, await openAnswerer(roomy, this.#options(own), signal));
    } catch (thrown) {
      // Bring the old model back at once. If that fails, the next message tries again.
      await this.ensure(false, new AbortController().signal).catch(() => undefined);
      throw thrown;
    }
  }
}

/** Undefined if the current server cannot load the model, or if no server answers. */
async function loadBy(
  { url, key, certificate }: Answerer,
  { id, file }: ChatModel,
  signal: AbortSignal,
): Promise<RunningModel | undefined> {
  return url === undefined
    ? undefined
    : await loadThere({ url, key, certificate }, id, file, signal).catch((thrown: unknown) => {
        if (['server_unreachable', 'shutting_down', 'model_fixed'].includes(RecuaError.from(thrown).code)) return undefined;
        throw thrown;
      });
}
