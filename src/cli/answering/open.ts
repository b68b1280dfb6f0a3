// Finds what answers for a model: a running server that has its file loaded, else an engine of this
// process. Called by run and chat.
import type { Config } from '../../settings/config.js';
import type { EngineSettings } from '../../engine/api.js';
import { dropSpare } from '../../engine/gateway/spare-process.js';
import type { ModelFile } from '../../models/gguf/model-file.js';
import { engineFlags, engineOptions } from '../flags/engine-flags.js';
import { on } from '../flags/flags.js';
import { ensureFits } from '../../models/needs/fit.js';
import { aboveProgress, tame } from '../terminal/output.js';
import type { Answerer } from './answerer.js';
import { OwnEngine } from './own-engine.js';
import { findRunningModel } from './running-models.js';
import { ServedModel } from './served-model.js';

export const localFlag = {
  local: on(['--local'], 'Load the model here, even if a running server has it loaded'),
} as const;

/** A model that was found and read, and how to load it. */
export interface ReadModel {
  /** The name used in a session. */
  name: string;
  id: string;
  path: string;
  file: ModelFile;
  config: Config;
  /** Size of the KV cache per token; undefined if unknown or not needed. */
  bytesPerToken?: number | undefined;
}

export interface OpenOptions {
  /** Use no server. */
  own: boolean;
  quiet: boolean;
  /** Refuse an embedding-only model at once. */
  chats: boolean;
  /** Where an engine's log goes. */
  settings: EngineSettings;
}

/** Whether flags, variables or the config file set what a running server cannot change. */
export function asksForOwnEngine(values: { local: boolean }, given: ReadonlySet<string>): boolean {
  return values.local || Object.keys(engineFlags).some((key) => given.has(key));
}

/** Resolves when the model can answer. An abort throws `cancelled`. */
export async function openAnswerer(model: ReadModel, options: OpenOptions, signal: AbortSignal): Promise<Answerer> {
  const running = options.own ? undefined : await findRunningModel(model.file);
  if (!running) {
    const { path, config, file, bytesPerToken, ...names } = model;
    const { settings, quiet, chats } = options;
    const warning = ensureFits(file, config);
    if (warning !== undefined) settings.log?.('warn', warning);
    return await OwnEngine.start({ ...names, options: engineOptions(path, config, file), settings, bytesPerToken, quiet, chats }, signal);
  }
  // The spare process was started before the flags were read, and is not needed.
  dropSpare();
  return new ServedModel(model, running);
}

/** On a terminal, says that a server answers, and how to avoid it. */
export function sayServer({ url, contextSize }: Answerer, quiet: boolean): void {
  if (url === undefined || quiet || !process.stderr.isTTY) return;
  const text = tame(`The running server ${url} answers, with a context of ${contextSize} tokens; --local loads the model here.`);
  const plain = process.env['NO_COLOR'] || process.env['TERM'] === 'dumb';
  aboveProgress(() => process.stderr.write(plain ? `${text}\n` : `\x1b[2m${text}\x1b[22m\n`));
}
