// Finds who answers for a model: a running server that has its file loaded, else an engine of this
// command's own. Called by run and chat.
import type { Config } from '../../settings/config.js';
import type { EngineSettings } from '../../engine/api.js';
import { dropSpare } from '../../engine/gateway/spare-process.js';
import type { ModelFile } from '../../models/gguf/model-file.js';
import { engineFlags, engineOptions } from '../flags/engine-flags.js';
import { on } from '../flags/flags.js';
import { aboveProgress, tame } from '../terminal/output.js';
import type { Answerer } from './answerer.js';
import { OwnEngine } from './own-engine.js';
import { findRunningModel } from './running-models.js';
import { ServedModel } from './served-model.js';

export const localFlag = {
  local: on(['--local'], 'Load the model in this process, even if a running server has it loaded'),
} as const;

/** A model that was found and read, and how it is loaded. */
export interface ReadModel {
  /** As a session names it. */
  name: string;
  id: string;
  path: string;
  file: ModelFile;
  config: Config;
  /** KV of one token; undefined where nobody asks or knows. */
  bytesPerToken?: number | undefined;
}

export interface OpenOptions {
  /** No server will do. */
  own: boolean;
  quiet: boolean;
  /** A model that only embeds is refused at once. */
  chats: boolean;
  /** Where an engine's log goes. */
  settings: EngineSettings;
}

/** Whether flags, variables or the config file ask for what a running server cannot be told. */
export function asksForOwnEngine(values: { local: boolean }, given: ReadonlySet<string>): boolean {
  return values.local || Object.keys(engineFlags).some((key) => given.has(key));
}

/** Resolves when questions are answered; an abort throws `cancelled`. */
export async function openAnswerer(model: ReadModel, options: OpenOptions, signal: AbortSignal): Promise<Answerer> {
  const running = options.own ? undefined : await findRunningModel(model.file);
  if (!running) {
    const { path, config, file, bytesPerToken, ...names } = model;
    const { settings, quiet, chats } = options;
    return await OwnEngine.start({ ...names, options: engineOptions(path, config, file), settings, bytesPerToken, quiet, chats }, signal);
  }
  // Started before the flags were read; nothing will be computed here.
  dropSpare();
  return new ServedModel(model, running);
}

/** Tells a person on a terminal that a server answers, and how to do without it. */
export function sayServer({ url, contextSize }: Answerer, quiet: boolean): void {
  if (url === undefined || quiet || !process.stderr.isTTY) return;
  const text = tame(`The running server ${url} answers, with a context of ${contextSize} tokens; --local loads the model here.`);
  const plain = process.env['NO_COLOR'] || process.env['TERM'] === 'dumb';
  aboveProgress(() => process.stderr.write(plain ? `${text}\n` : `\x1b[2m${text}\x1b[22m\n`));
}
