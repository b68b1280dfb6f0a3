// The model that answers in a chat, and changing it: for another, or for the same one by other
// means where a server went away or cannot do what is asked. The old one answers on where the new
// one does not come. Made by commands/chat.ts, asked by the dialogue.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { makeConfig } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import { RecuaError } from '../../errors.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { readInventory } from '../../models/lookup.js';
import { findPlaces } from '../../models/places.js';
import { findModel, markUsed, runnableModels } from '../../models/store.js';
import type { StoredModel } from '../../models/store.js';
import type { Answerer } from '../answering/answerer.js';
import { openAnswerer } from '../answering/open.js';
import type { OpenOptions, ReadModel } from '../answering/open.js';
import { loadThere } from '../answering/running-models.js';
import type { RunningModel } from '../answering/running-models.js';
import { ServedModel } from '../answering/served-model.js';
import { bytesPerToken, chooseContext, hasRoomFor } from './context-size.js';
import type { ContextChoice } from './context-size.js';

export interface ChatModel extends ReadModel {
  /** Undefined where the context was asked for. */
  context: ContextChoice | undefined;
}

/** How this chat loads models: what the command line says of it. */
export interface LoadSettings {
  config: Partial<Config>;
  /** The context is as large as memory allows. */
  choosesContext: boolean;
  open: OpenOptions;
}

export class ChatModels {
  readonly #settings: LoadSettings;
  readonly #hasRoomFor: typeof hasRoomFor;
  #current: Answerer | undefined;
  /** Of the model that answers. */
  #path = '';
  /** Who answered is gone for good: another is needed before the next turn. */
  #isGone = false;

  constructor(settings: LoadSettings, hasRoom = hasRoomFor) {
    this.#settings = settings;
    this.#hasRoomFor = hasRoom;
  }

  /** Who answers. Throws where nobody was opened yet. */
  get current(): Answerer {
    if (!this.#current) throw new RecuaError('closed', 'No model was opened.');
    return this.#current;
  }

  /** Finds and reads a model, so that its name and its file are known to be good. */
  async read(name: string): Promise<ChatModel> {
    const { config, choosesContext } = this.#settings;
    const model = await findModel(name);
    const file = await readModelFile(model.path);
    await markUsed(model);
    const whole = makeConfig({ ...config, parallel: 1, model: model.path });
    const context = choosesContext ? chooseContext(file, whole) : undefined;
    return {
      name: nameToKeep(name, model), id: model.id, path: model.path, file, context,
      config: context ? makeConfig({ ...whole, contextSize: context.size }) : whole,
      bytesPerToken: bytesPerToken(file, whole),
    };
  }

  /** The first model of this chat. */
  async open(model: ChatModel, own: boolean, signal: AbortSignal): Promise<Answerer> {
    return await this.#replace(model, await openAnswerer(model, this.#options(own), signal));
  }

  /** What `switchTo` can be given: the models of the store, and the embedded one; aliases, too. */
  async names(): Promise<string[]> {
    const inventory = await readInventory(findPlaces());
    const models = await runnableModels(inventory);
    return [...models.map(({ id }) => id), ...inventory.aliases.keys()];
  }

  /**
   * Has another model answer from now on. The server that answers now is asked for it first, since
   * it may load it; then any other that has it loaded. Resolves to undefined where that model
   * answers already.
   */
  async switchTo(name: string, own: boolean, signal: AbortSignal): Promise<Answerer | undefined> {
    const model = await this.read(name);
    const before = this.current;
    if (model.path === this.#path && !this.#isGone) return undefined;
    const there = this.#isGone || this.#options(own).own ? undefined : await loadBy(before, model, signal);
    if (there) return await this.#replace(model, new ServedModel(model, there));
    return await this.#openBeside(before, model, own, signal);
  }

  /** Who answered is gone for good. */
  lose(): void {
    this.#isGone = true;
  }

  /**
   * Sees to it that somebody can answer: the same model by other means where who did is gone, or is
   * a server where only an engine of one's own will do. Resolves to who is new.
   */
  async ensure(own: boolean, signal: AbortSignal): Promise<Answerer | undefined> {
    const { name, url } = this.current;
    if (!this.#isGone && !(own && url !== undefined)) return undefined;
    const model = await this.read(name);
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

  /** Where two engines have no room beside each other, the old one leaves before the new comes. */
  async #openBeside(before: Answerer, model: ChatModel, own: boolean, signal: AbortSignal): Promise<Answerer> {
    const wanted = model.context ? { ...model.config, contextSize: 0 } : model.config;
    if (before.url !== undefined || this.#hasRoomFor(model.file, wanted)) {
      return await this.#replace(model, await openAnswerer(model, this.#options(own), signal));
    }
    await before.close();
    this.#isGone = true;
    try {
      // Read again: in the room that the old one left, the context may be larger.
      const roomy = await this.read(model.name);
      return await this.#replace(roomy, await openAnswerer(roomy, this.#options(own), signal));
    } catch (thrown) {
      // At once, so that the next message is answered as if nothing had been; if it fails, that one
      // tries again.
      await this.ensure(false, new AbortController().signal).catch(() => undefined);
      throw thrown;
    }
  }
}

/** Undefined where the server that answers now cannot load it, or where none does. */
async function loadBy({ url, key, certificate }: Answerer, { id, file }: ChatModel, signal: AbortSignal): Promise<RunningModel | undefined> {
  return url === undefined ? undefined : await loadThere({ url, key, certificate }, id, file, signal).catch((thrown: unknown) => {
    if (['server_unreachable', 'shutting_down', 'model_fixed'].includes(RecuaError.from(thrown).code)) return undefined;
    throw thrown;
  });
}

/** A path holds in any folder only if it is absolute; any other name is as good as it was typed. */
function nameToKeep(name: string, model: StoredModel): string {
  return name !== 'builtin' && (existsSync(resolve(name)) || existsSync(`${resolve(name)}.gguf`)) ? model.path : name;
}
