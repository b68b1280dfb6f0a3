// `recua show <model>`: what a GGUF file holds and what it needs. Recua's own reader works without
// the addon, reads no weights, is instant for any size, and works on the hub as well as on disk.
import { defaults } from '../../settings/config.js';
import { sharingSettings } from '../../settings/engine.js';
import { RecuaError } from '../../errors.js';
import { sizeText } from '../../models/byte-size.js';
import { fileSource } from '../../models/gguf/byte-source.js';
import type { Gguf, MetadataValue } from '../../models/gguf/gguf.js';
import { estimateMemory, largestContext } from '../../models/needs/memory.js';
import type { MemoryNeed, MemoryOptions } from '../../models/needs/memory.js';
import { machineMemory } from '../../system/machine-memory.js';
import type { MachineMemory } from '../../system/machine-memory.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import type { ModelFile, PartOpener } from '../../models/gguf/model-file.js';
import { hashFile } from '../../models/gguf/file-hash.js';
import type { FileHash } from '../../models/gguf/file-hash.js';
import { missingKeys } from '../../models/gguf/required-keys.js';
import { openRemoteModel } from '../../models/hub/remote-model.js';
import { isHubName, tryRepositoryName } from '../../models/names/repository-name.js';
import { findModel } from '../../models/store.js';
import { command } from '../command.js';
import { engineFlags } from '../flags/engine-flags.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { settingFlag } from '../flags/setting-flags.js';
import { saySetback } from '../hub-search.js';
import { print, tame, toJson } from '../terminal/output.js';
import { parameters, plain, quoted } from '../terminal/wording.js';

export const show = command({
  name: 'show',
  aliases: [],
  operands: '<model>',
  summary: 'Show what a model holds and how much memory it needs',
  details: 'It also checks the file, and reports where a damaged or incomplete file is broken. An owner/repo that is not in the store is read on the hub, without downloading it. Memory is what the model adds to a process; Recua itself takes about 100 MiB.',
  examples: [
    ['recua show model.gguf', 'Show architecture, parameters, quantization, context and memory'],
    ['recua show owner/repo:Q4_K_M --ctx-size 32768', 'Show the memory for a context of that size'],
    ['recua show builtin --template', 'Print the whole chat template'],
    ['recua show owner/repo:Q4_K_M --verify', 'Check whether the file is still as it was downloaded'],
  ],
  flags: {
    all: perCall(on(['--all', '-a'], 'Print every metadata key')),
    tensors: perCall(on(['--tensors'], 'List the tensors')),
    verify: perCall(on(['--verify'], 'Read the whole file and compare its SHA-256 with the one it was stored under')),
    template: perCall(on(['--template'], 'Print only the chat template')),
    contextSize: engineFlags.contextSize,
    parallel: settingFlag(sharingSettings.parallel, { help: 'Show the memory for this many requests at once', fallback: 1 }),
    cacheTypeK: engineFlags.cacheTypeK,
    cacheTypeV: engineFlags.cacheTypeV,
    batchSize: engineFlags.batchSize,
    microBatchSize: engineFlags.microBatchSize,
    flashAttention: engineFlags.flashAttention,
    json: perCall(on(['--json'], 'Print JSON')),
  },
  async run({ values, operands }) {
    const [name, ...surplus] = operands;
    if (name === undefined) throw misuse('Expected a model: recua show <model>, where a model is the path of a GGUF file, a name that recua list shows, or builtin.');
    if (surplus.length > 0) throw misuse(`Expected one model, got ${operands.length}.`);
    const opener = await locate(name);
    const model = await readModelFile(opener);
    if (values.template) {
      const template = await readTemplate(model, opener);
      await print(values.json ? toJson({ template }) : endLine(process.stdout.isTTY ? tame(template) : template));
      return 0;
    }
    const hashes = values.verify ? await hashFiles(model, opener) : [];
    const report = { ...values, hashes, missing: missingKeys(model), need: estimateMemory(model, values), machine: machineMemory() };
    await print(values.json ? asJson(model, report) : asText(model, report));
    const damaged = hashes.find(({ sha256, expected }) => expected !== null && expected !== sha256);
    if (damaged) {
      throw new RecuaError('download_corrupt', `${damaged.file} is damaged: its sha256 is ${damaged.sha256}, but it was stored as ${damaged.expected}. Get it again: recua pull or recua import, with --force.`);
    }
    return 0;
  },
});

async function hashFiles(model: ModelFile, opener: string | PartOpener): Promise<FileHash[]> {
  if (typeof opener !== 'string') throw misuse('Expected a model on this machine for --verify, got one on the hub. recua pull checks what it downloads.');
  const hashes: FileHash[] = [];
  for (const part of model.parts) hashes.push(await hashFile(part.path));
  return hashes;
}

function hashText(sha256: string, expected: string | null): string {
  if (expected === null) return 'there is nothing to compare it with; the model\'s page may state it';
  return expected === sha256 ? 'as it was stored' : `it was stored as ${expected}`;
}

/** Resolves a name: a file on this machine, else a model on the hub. */
async function locate(name: string): Promise<string | PartOpener> {
  try {
    return (await findModel(name)).path;
  } catch (error) {
    if (!(error instanceof RecuaError) || error.code !== 'model_not_found' || !isHubName(tryRepositoryName(name))) throw error;
    return await findRemote(name, error);
  }
}

/**
 * A model on the hub, read by ranges. An error starts with the hub's message, followed by local
 * models with similar names.
 */
async function findRemote(name: string, notHere: RecuaError): Promise<PartOpener> {
  try {
    return await openRemoteModel(name, process.env, saySetback);
  } catch (cause) {
    const { code, message } = RecuaError.from(cause);
    throw new RecuaError(code, `${message}${/[.?]$/.test(message) ? '' : '.'} ${notHere.message.replace(/ To download it: .*/, '')}`, { cause });
  }
}

/** Reads a template that is longer than the reader keeps from its place in the file. */
async function readTemplate(model: ModelFile, opener: string | PartOpener): Promise<string> {
  const [first] = model.parts;
  const value = first.metadata.get('tokenizer.chat_template');
  if (!model.hasChatTemplate || value === undefined) throw new RecuaError('chat_unsupported', `${first.path} has no chat template.`);
  if (typeof value !== 'object' || !('lengthBytes' in value)) return model.chatTemplate;
  if (value.lengthBytes > longestTemplateBytes) throw new RecuaError('invalid_gguf', `The chat template of ${first.path} claims ${value.lengthBytes} bytes, more than the ${longestTemplateBytes} that any could need.`);
  const source = typeof opener === 'string' ? await fileSource(opener) : await opener.open(opener.file);
  try {
    const text = Buffer.alloc(value.lengthBytes);
    for (let done = 0; done < text.length;) {
      const read = await source.read(text.subarray(done), value.offset + done);
      if (read === 0) throw new RecuaError('invalid_gguf', `${first.path} ends inside its chat template. Download it again.`);
      done += read;
    }
    return text.toString('utf8');
  } finally {
    await source.close();
  }
}

const longestTemplateBytes = 16 * 1024 * 1024;

function endLine(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`;
}

interface Report extends MemoryOptions {
  verify: boolean;
  hashes: readonly FileHash[];
  /** Metadata keys. */
  missing: readonly string[];
  all: boolean;
  tensors: boolean;
  need: MemoryNeed;
  machine: MachineMemory;
}

function asText(model: ModelFile, report: Report): string {
  const { all, tensors, need, machine } = report;
  const [file] = model.parts;
  const unknown = 'not stated';
  const rows: [string, string][] = [
    ['File', plain(file.path)],
    ['Size', `${sizeText(model.sizeBytes)}${model.parts.length > 1 ? ` in ${model.parts.length} parts` : ''}`],
    ['Version', `GGUF ${file.version}`],
    ['Tensors', String(model.tensorCount)],
    ['Architecture', plain(model.architecture) || unknown],
    ['Name', plain(model.name) || unknown],
    ['Parameters', parameters(model.parameters)],
    ['Quantization', model.quantization],
    ['Context', model.contextTrain > 0 ? `${model.contextTrain} tokens` : unknown],
    ['Embedding size', model.embeddingSize > 0 ? String(model.embeddingSize) : unknown],
    ['Layers', model.layers > 0 ? `${model.layers} and the output layer` : unknown],
    ['Vocabulary', model.vocabSize > 0 ? `${model.vocabSize} tokens` : unknown],
    ['Chat template', model.hasChatTemplate ? 'yes' : 'no'],
    ...(report.missing.length > 0 ? [['Missing', `${report.missing.map(plain).join(', ')}: llama.cpp cannot load the model without it. Get the file again, or convert the model again.`] as [string, string]] : []),
    ...report.hashes.map(({ file, sha256, expected }): [string, string] => ['sha256', `${sha256}${report.hashes.length > 1 ? ` ${plain(file)}` : ''}: ${hashText(sha256, expected)}`]),
    ['Memory', `${sizeText(need.totalBytes)}: weights ${sizeText(need.weightsBytes)}, context ${sizeText(need.kvBytes)} for ${contextText(model, report)}, computing ${sizeText(need.computeBytes)}`],
    ['Machine', `${sizeText(machine.totalBytes)}, ${sizeText(machine.availableBytes)} of it available: ${fitText(model, report)}`],
  ];
  const lines = rows.map(([label, value]) => `${label.padEnd(15)} ${value}`);
  if (all) {
    lines.push('', 'Metadata');
    for (const [key, value] of file.metadata) lines.push(`  ${plain(key)} = ${valueText(value)}`);
  }
  if (tensors) {
    lines.push('', 'Tensors');
    for (const tensor of model.parts.flatMap((part) => part.tensors)) {
      lines.push(`  ${plain(tensor.name)}  ${tensor.type}  ${tensor.shape.join(' × ')}  ${sizeText(tensor.sizeBytes)}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

function contextText(model: ModelFile, report: Report): string {
  const size = contextOf(model, report);
  const most = report.contextSize > size ? ' (the most that this model takes)' : '';
  return `${report.parallel > 1 ? `${report.parallel} requests of ` : ''}${size} tokens${most}`;
}

/** Tokens that a request actually gets: never more than the model was trained on. */
function contextOf(model: ModelFile, { contextSize }: Report): number {
  const most = model.contextTrain > 0 ? model.contextTrain : defaults.contextSize;
  return contextSize > 0 && (model.contextTrain === 0 || contextSize < most) ? contextSize : most;
}

function fitText(model: ModelFile, report: Report): string {
  if (report.need.totalBytes <= report.machine.availableBytes) return 'it fits';
  const most = largestContext(model, report.machine.availableBytes, report);
  return most > 0 ? `it does not fit; it would with --ctx-size ${most}` : 'it does not fit';
}

function asJson(model: ModelFile, report: Report): string {
  const { all, tensors, need, machine } = report;
  const [file] = model.parts;
  return `${JSON.stringify({
    path: file.path,
    parts: model.parts.length,
    size_bytes: model.sizeBytes,
    version: file.version,
    tensor_count: model.tensorCount,
    architecture: model.architecture,
    name: model.name,
    parameters: model.parameters,
    quantization: model.quantization,
    context_length: model.contextTrain,
    embedding_size: model.embeddingSize,
    layers: model.layers,
    vocabulary_size: model.vocabSize,
    chat_template: model.hasChatTemplate,
    missing_keys: report.missing,
    ...(report.verify ? { hashes: report.hashes } : {}),
    memory: {
      context_size: contextOf(model, report),
      parallel: report.parallel,
      weights_bytes: need.weightsBytes,
      kv_bytes: need.kvBytes,
      compute_bytes: need.computeBytes,
      total_bytes: need.totalBytes,
      machine_total_bytes: machine.totalBytes,
      machine_available_bytes: machine.availableBytes,
      fits: need.totalBytes <= machine.availableBytes,
      largest_context_size: largestContext(model, machine.availableBytes, report),
    },
    ...(all ? { metadata: metadataObject(file) } : {}),
    ...(tensors ? {
      tensors: model.parts.flatMap((part) => part.tensors)
        .map((tensor) => ({ name: tensor.name, type: tensor.type, shape: tensor.shape, size_bytes: tensor.sizeBytes })),
    } : {}),
  }, replaceBigint, 2)}\n`;
}

function metadataObject(file: Gguf): Record<string, unknown> {
  return Object.fromEntries([...file.metadata].map(([key, value]): [string, unknown] => {
    if (typeof value !== 'object') return [key, value];
    if ('lengthBytes' in value) return [key, { length_bytes: value.lengthBytes }];
    return [
      key,
      value.items.length === value.length ? value.items : { item_type: value.itemType, length: value.length, first: value.items },
    ];
  }));
}

/** 64-bit integers become numbers if that is exact, else strings. */
function replaceBigint(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

function valueText(value: MetadataValue): string {
  if (typeof value === 'string') return quoted(value);
  if (typeof value !== 'object') return String(value);
  if ('lengthBytes' in value) return `a text of ${sizeText(value.lengthBytes)}`;
  const first = value.items.slice(0, 8).map(valueText).join(', ');
  return `[${first}${value.length > 8 ? ', …' : ''}] (${value.length} × ${value.itemType})`;
}
