// Loads a model for the engine: options → native model and context, and the description for the
// gateway. Called once for each engine, by host or local.
import { availableParallelism } from 'node:os';
import type { ChatInput, ContextOptions, Device, EmbedderOptions, NativeModelInfo, ModelLoad, NativeAddon, NativeContext, NativeModel, Pooling } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { ensureChecked, fingerprintOf, readModelFile, withoutFolders, type CheckedFile } from '../../models/gguf/model-file.js';
import { missingKeys } from '../../models/gguf/required-keys.js';
import { keptTurnFile } from '../../system/turn-file.js';
import { chooseOffload, settleOffload } from '../offload.js';
import type { OffloadChoice, SkippedBackend } from '../offload.js';
import { canRemoveParts, scoredRows, type LoadedModel } from '../loop/loaded.js';
import { defectNotes, knownDefects } from './known-defects.js';
import type { EngineOptions, ModelDescription, Pulse } from '../protocol.js';
import { ensureVectorRoom } from './vector-room.js';

const progressMs = 100;

/** A smaller context may have no room for the text that a template adds to a chat. */
const smallContext = 1024;

/** Most inputs of an embedding call in one forward pass. */
const embedderSequences = 32;

export interface Loading {
  promise: Promise<LoadedModel>;
  cancel(): void;
  /** Signs of life while the first token is evaluated; nothing else of a load has to show any. */
  look(): Pulse;
}

/** The context that evaluates the first token. */
interface Trial {
  context?: NativeContext | undefined;
}

export function load(
  addon: NativeAddon, options: EngineOptions, onProgress: (fraction: number) => void, backends: readonly SkippedBackend[] = [],
): Loading {
  const { modelPath: path, checked = [], gpuLayers, requireGpu, mmap, mlock, numa } = options;
  let loading: ModelLoad | undefined;
  let cancelled = false;
  const trial: Trial = {};
  const attempt = async (offload: OffloadChoice, before: readonly Device[]): Promise<LoadedModel> => {
    if (numa !== 'none' && !addon.setNuma(numa)) offload.notes.push(`--numa ${numa} has no effect: llama.cpp finds no second memory node on this machine.`);
    // Before every load: the file may have changed since the gateway checked it, above all when a
    // crashed engine restarts.
    const files = await ensureChecked(path, checked).catch((cause: unknown) => {
      throw new RecuaError(RecuaError.from(cause).code, withoutFolders(cause, path), { cause });
    });
    const repack = repacks(addon, options, offload);
    loading = addon.loadModel({ path, gpuLayers: offload.gpuLayers, devices: offload.devices, mmap, mlock, repack });
    if (cancelled) loading.cancel();
    const { progress, promise } = loading;
    const watch = setInterval(() => onProgress(progress()), progressMs);
    const model = await promise.finally(() => clearInterval(watch)).catch(async (error: unknown) => {
      throw await withMissing(RecuaError.from(error), path);
    });
    return await open(addon, model, options, offload, files, before, trial);
  };
  const all = async (): Promise<LoadedModel> => {
    refuseValueType(options);
    const before = addon.devices();
    const offload = chooseOffload(options, before, backends);
    try {
      return await attempt(offload, before);
    } catch (error) {
      // A GPU that the user did not explicitly ask for must not keep a model from loading.
      if (cancelled || gpuLayers !== 'auto' || requireGpu || offload.devices.length === 0) throw error;
      const note = `${offload.devices.join(', ')} could not take the model (${RecuaError.from(error).message}); all layers run on the CPU.`;
      return await attempt({ ...offload, devices: [], gpuLayers: 0, notes: [note] }, before);
    }
  };
  const cancel = (): void => {
    cancelled = true;
    loading?.cancel();
  };
  const look = (): Pulse => ({
    compute: { busy: trial.context !== undefined, done: trial.context?.polls() ?? 0 },
    pool: { busy: false, done: 0 },
  });
  return { promise: all(), cancel, look };
}

/** Adds what the file lacks to llama.cpp's reason. */
async function withMissing(error: RecuaError, path: string): Promise<RecuaError> {
  if (error.code !== 'model_unusable') return error;
  const missing = await readModelFile(path).then(missingKeys, () => []);
  if (missing.length === 0) return error;
  return new RecuaError('model_unusable', `${error.message}. The file lacks ${missing.join(', ')}: get it again, or convert the model again.`, { cause: error });
}

async function open(
  addon: NativeAddon,
  model: NativeModel,
  wanted: EngineOptions,
  offload: OffloadChoice,
  files: readonly CheckedFile[],
  before: readonly Device[],
  trial: Trial,
): Promise<LoadedModel> {
  try {
    const { info } = model;
    const { mathThreads } = addon.version;
    const defect = knownDefects[info.architecture] ?? {};
    const options = defect.oneAtATime ? { ...wanted, parallel: 1 } : wanted;
    const notes = [...offload.notes, ...defectNotes(info.architecture, wanted.parallel)];
    if (info.vocabSize === 0)
      throw new RecuaError('model_unusable', `Expected a model with a vocabulary, got ${info.architecture} without one.`);
    if (info.hasEncoder && info.hasDecoder) {
      throw new RecuaError(
        'model_unusable',
        `Expected a model that only decodes or only encodes, got ${info.architecture}, which does both (T5 and its like are not supported).`,
      );
    }
    const contextSize = effectiveContext(info, options, notes);
    const pooling = defect.noVectors ? 'none' : effectivePooling(model, options, notes);
    const turns = offload.devices.length === 0 ? { turnFile: keptTurnFile() } : {};
    const settled = settleOffload(offload, info.layers);
    const onDevices = settled.layers === settled.totalLayers;
    const forContext = { ...contextOptions(options, contextSize, mathThreads), onDevices, ...turns };
    const context = info.hasDecoder ? await model.createContext(forContext).catch(inWords) : undefined;
    const embedderOptions = pooling === 'none' ? undefined : { ...embedding(options, contextSize, pooling, mathThreads), ...turns };
    if (!context && !embedderOptions) {
      throw new RecuaError(
        'model_unusable',
        `Expected a model that generates or embeds, got ${info.architecture} with pooling ${pooling}.`,
      );
    }
    // A GPU does not poll, and may compile its kernels for minutes first.
    if (offload.devices.length === 0) trial.context = context;
    await tryOut(model, context).finally(() => (trial.context = undefined));
    if (context && options.chatTemplate !== '') await ensureCompiles(model, options.chatTemplate);
    if (!canRemoveParts(info)) {
      const why = info.recurrent ? 'This architecture keeps one state per sequence' : 'Sliding-window attention forgets old positions';
      notes.push(`${why}: a prompt can reuse an earlier conversation only as a whole, or up to a checkpoint near the end of its prompt.`);
    }
    if (options.specType !== 'none' && context && !canRemoveParts(info)) {
      notes.push('Tokens are not guessed ahead: this architecture cannot remove wrong guesses from its memory.');
    }
    const devices = addon.devices();
    const description: ModelDescription = {
      description: describe(info),
      fingerprint: fingerprintOf(files),
      architecture: info.architecture,
      fileType: info.fileType,
      parameters: info.parameters,
      sizeBytes: info.sizeBytes,
      vocabSize: info.vocabSize,
      vocabType: info.vocabType,
      embeddingSize: info.embeddingSize,
      layers: info.layers,
      // llama.cpp gives 2^31 and more as a negative number.
      contextTrain: Math.max(0, info.contextTrain),
      contextSize: context?.contextSize ?? contextSize,
      leastContext: context && contextSize < smallContext ? await leastContext(model, options.chatTemplate) : 0,
      parallel: options.parallel,
      pooling,
      hasChatTemplate: info.hasChatTemplate || options.chatTemplate !== '',
      chatTemplate: options.chatTemplate || model.chatTemplate(),
      canGenerate: context !== undefined,
      canInfill: context !== undefined && Math.min(info.fimPrefix, info.fimSuffix, info.fimMiddle) >= 0,
      bosText: textOf(model, info.bosToken),
      eosText: textOf(model, info.eosToken),
      canEmbed: embedderOptions !== undefined && pooling !== 'rank',
      canRerank: pooling === 'rank',
      devices,
      deviceBytes: takenBytes(offload.devices, before, devices),
      offload: settled,
      backends: addon.version.backends,
      llamaCpp: addon.version.llamaCpp,
      notes,
    };
    // llama.cpp itself reports that a GPU's memory is full. macOS does not tell how much it could
    // make available.
    const vectorRoom =
      offload.devices.length > 0 || process.platform === 'darwin'
        ? async () => {}
        : async (size: number) => await ensureVectorRoom(options.modelPath, size);
    return {
      options,
      files,
      model,
      context,
      embedderOptions,
      ensureVectorRoom: vectorRoom,
      pieces: await model.pieces(false),
      description,
    };
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** What a load took of its devices; a share of another program's change may be in it. */
function takenBytes(names: readonly string[], before: readonly Device[], after: readonly Device[]): number {
  const free = (devices: readonly Device[]): number =>
    devices.filter(({ name }) => names.includes(name)).reduce((sum, { memoryFreeBytes }) => sum + memoryFreeBytes, 0);
  return Math.max(0, free(before) - free(after));
}

/**
 * Evaluates one token before the model counts as loaded: llama.cpp finds some faults of a file only
 * then, and may end the process.
 */
async function tryOut(model: NativeModel, context: NativeContext | undefined): Promise<void> {
  let tokens: Int32Array;
  try {
    // Some vocabularies have no tokens for rare characters, and llama.cpp fails on them.
    tokens = await model.tokenize('a \n\u0001é🦙', true, true);
  } catch (error) {
    throw new RecuaError('model_unusable', `Expected a vocabulary with tokens for every character, got one that cannot write some (llama.cpp says ${RecuaError.from(error).message}).`);
  }
  const unknown = tokens.find((token) => token < 0 || token >= model.info.vocabSize);
  if (unknown !== undefined) throw new RecuaError('model_unusable', `Expected a vocabulary whose texts are its tokens, got token ${unknown} of ${model.info.vocabSize}.`);
  if (!context) return;
  const one = Int32Array.of(0);
  const step = {
    tokens: tokens.length > 0 ? tokens.subarray(0, 1) : one,
    positions: one,
    sequences: one,
    outputs: Uint8Array.of(1),
    rows: 1,
    samplers: [null],
  };
  try {
    await context.steps(step, 1, () => {});
  } catch (error) {
    throw new RecuaError('model_unusable', `The model cannot evaluate a token: ${RecuaError.from(error).message}`);
  }
  await context.removeSequence(0, 0, -1);
}

/**
 * E.g. `llama 135M Q8_0`. llama.cpp's own description guesses the size from the layers, and says
 * `?B` for most models.
 */
function describe({ architecture, parameters, fileType }: NativeModelInfo): string {
  const [size, unit] = ([[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']] as const).find(([one]) => parameters >= one) ?? [1, ''];
  return [architecture, `${Number((parameters / size).toPrecision(3))}${unit}`, fileType.replace(/ *\(guessed\)| - .*$/g, '')].join(' ');
}

function textOf(model: NativeModel, token: number): string {
  return token < 0 ? '' : Buffer.from(model.piece(token, true)).toString();
}

function shortestChat(template: string): ChatInput {
  return {
    messages: JSON.stringify([{ role: 'user', content: 'a' }]), tools: '', toolChoice: 'none', jsonSchema: '', grammar: '',
    addGenerationPrompt: true, enableThinking: true, templateKwargs: {}, template,
  };
}

/** With a template that was given for the model, every chat would fail, though all seems well. */
async function ensureCompiles(model: NativeModel, template: string): Promise<void> {
  try {
    await model.applyChatTemplate(shortestChat(template));
  } catch (error) {
    const { code, message } = RecuaError.from(error);
    // A template that refuses this chat may accept another.
    if (code === 'chat_unsupported') throw new RecuaError('model_unusable', message, { cause: error });
  }
}

/** Tokens of the shortest chat with the model's template, or with ChatML if it has none. */
async function leastContext(model: NativeModel, template: string): Promise<number> {
  try {
    const { prompt } = await model.applyChatTemplate(shortestChat(template));
    return (await model.tokenize(prompt, true, true)).length + 1;
  } catch {
    // A template that refuses this chat may accept another.
    return 0;
  }
}

/** llama.cpp says so only once it has read the weights. */
function refuseValueType({ flashAttention, cacheTypeV }: EngineOptions): void {
  if (flashAttention !== 'off' || ['f16', 'bf16', 'f32'].includes(cacheTypeV)) return;
  throw new RecuaError('invalid_value', `Expected flash attention (--flash-attn auto or on) for cached values of the type ${cacheTypeV} (--cache-type-v), got off. Without it, they can be f16, bf16 or f32.`);
}

/** llama.cpp's words about cached keys or values whose blocks do not fit a model's heads. */
const blocksDoNotFit = /(K|V) cache type (\w+) with block size (\d+) does not divide n_embd_head_[kv]=(\d+)/;

function inWords(thrown: unknown): never {
  const [, which, type, block, head] = blocksDoNotFit.exec((thrown as Error).message) ?? [];
  if (which === undefined) throw thrown;
  const flag = which === 'K' ? '--cache-type-k' : '--cache-type-v';
  const message = `Expected a type for ${flag} that fits the model's heads of ${head} values, got ${type}, which has blocks of ${block}. f16, bf16 and f32 always fit.`;
  throw new RecuaError('invalid_value', message, { cause: thrown });
}

/** Positions beyond the training context give noise, so that is the limit. */
function effectiveContext(info: NativeModelInfo, options: EngineOptions, notes: string[]): number {
  const most = info.contextTrain > 0 ? info.contextTrain : 4096;
  if (options.contextSize > most) notes.push(`The context is ${most} tokens, which the model was trained on, not the ${options.contextSize} asked for.`);
  return options.contextSize > 0 ? Math.min(options.contextSize, most) : most;
}

function effectivePooling(model: NativeModel, { pooling: wanted }: EngineOptions, notes: string[]): Pooling {
  const { info } = model;
  const inFile = info.pooling === 'unspecified' || info.pooling === 'none' ? 'mean' : info.pooling;
  const pooling = wanted === 'auto' ? inFile : wanted;
  if (pooling !== 'rank' || model.hasRankHead()) return pooling;
  const lack = 'it has no classification head (no tensor cls.weight or cls.output.weight)';
  if (wanted === 'rank') throw new RecuaError('model_unusable', `Expected a reranker, as the pooling "rank" says, but ${lack}. Use another pooling, or load a reranker.`);
  const text = `The file says that the model is a reranker, but ${lack}`;
  if (!info.hasDecoder) throw new RecuaError('model_unusable', `${text}: get it again, or convert the model again.`);
  notes.push(`${text}, so it cannot rerank.`);
  return 'none';
}

/**
 * Whether ggml copies weights into layouts for its own kernels. Not where Recua's kernels multiply
 * all types that it would copy: they read weights as they are in the file. On AMX, ggml's are fast.
 */
export function repacks(
  addon: Pick<NativeAddon, 'matmul' | 'backends'>, { matmul, kernels }: Pick<EngineOptions, 'matmul' | 'kernels'>,
  { gpuLayers, devices }: Pick<OffloadChoice, 'gpuLayers' | 'devices'>,
): boolean {
  const own = addon.matmul();
  const features = addon.backends().find(({ name }) => name === 'CPU')?.features ?? {};
  if (kernels === undefined || matmul !== 'auto' || own.best === '' || gpuLayers !== 0 || devices.length > 0 || 'AMX_INT8' in features) return true;
  const copied = kernels.filter((family) => / (q4_0|q4_K|q2_K|iq4_nl|mxfp4)$/.test(family));
  return !copied.every((family) => own.types.some((type) => family === `products ${type}`));
}

function contextOptions(options: EngineOptions, contextSize: number, mathThreads: number): ContextOptions {
  // A step must have room for one token of every sequence.
  const batchSize = Math.max(options.batchSize, options.parallel);
  return {
    contextSize,
    sequences: options.parallel,
    batchSize,
    microBatchSize: Math.min(options.microBatchSize, batchSize),
    ...threads(options, mathThreads),
    flashAttention: options.flashAttention,
    attention: options.attention,
    matmul: options.matmul,
    cacheTypeK: options.cacheTypeK,
    cacheTypeV: options.cacheTypeV,
    scores: scoredRows,
    ...(options.specType === 'none' ? { predict: options.specDraftMax } : { draft: options.specDraftMax }),
  };
}

function embedding(options: EngineOptions, contextSize: number, pooling: Pooling, mathThreads: number): EmbedderOptions {
  return {
    contextSize,
    sequences: embedderSequences,
    threads: threads(options, mathThreads).threadsBatch,
    pooling,
    matmul: options.matmul,
  };
}

/**
 * One thread per physical core, since two threads on one core slow each other down; fewer if a
 * container grants fewer cores.
 */
function threads(options: EngineOptions, mathThreads: number): { threads: number; threadsBatch: number } {
  const count = options.threads || Math.min(mathThreads, availableParallelism());
  return { threads: count, threadsBatch: options.threadsBatch || count };
}
