// `recua show <file>`: what a GGUF file holds, by Recua's own reader: no addon, no weights read, instant on any size.
import type { Gguf, MetadataValue } from '../models/gguf.js';
import { readModelFile } from '../models/model-file.js';
import type { ModelFile } from '../models/model-file.js';
import { findModel } from '../models/store.js';
import { command } from './command.js';
import { misuse, on, perCall } from './flags.js';
import { print } from './output.js';

export const show = command({
  name: 'show',
  aliases: [],
  operands: '<file>',
  summary: 'Print the metadata of a GGUF file',
  details: 'The file is checked as well: a damaged or incomplete one is refused with the place.',
  flags: {
    all: perCall(on(['--all', '-a'], 'Print every metadata key')),
    tensors: perCall(on(['--tensors'], 'List the tensors')),
    json: perCall(on(['--json'], 'Print JSON')),
  },
  async run({ values, operands }) {
    const [name, ...surplus] = operands;
    if (name === undefined) throw misuse('Expected a file: recua show <file>.');
    if (surplus.length > 0) throw misuse(`Expected one file, got ${operands.length}.`);
    const model = await readModelFile((await findModel(name)).path);
    await print(values.json ? asJson(model, values) : asText(model, values));
    return 0;
  },
});

interface Parts {
  all: boolean;
  tensors: boolean;
}

function asText(model: ModelFile, { all, tensors }: Parts): string {
  const [file] = model.parts;
  const unknown = 'not stated';
  const rows: [string, string][] = [
    ['File', file.path],
    ['Size', `${bytes(model.sizeBytes)}${model.parts.length > 1 ? ` in ${model.parts.length} parts` : ''}`],
    ['Version', `GGUF ${file.version}`],
    ['Tensors', String(model.tensorCount)],
    ['Architecture', plain(model.architecture) || unknown],
    ['Name', plain(model.name) || unknown],
    ['Parameters', parameters(model.parameters)],
    ['Quantisation', model.quantisation],
    ['Context', model.contextTrain > 0 ? `${model.contextTrain} tokens` : unknown],
    ['Embedding size', model.embeddingSize > 0 ? String(model.embeddingSize) : unknown],
    ['Layers', model.layers > 0 ? String(model.layers) : unknown],
    ['Vocabulary', model.vocabSize > 0 ? `${model.vocabSize} tokens` : unknown],
    ['Chat template', model.hasChatTemplate ? 'yes' : 'no'],
  ];
  const lines = rows.map(([label, value]) => `${label.padEnd(15)} ${value}`);
  if (all) {
    lines.push('', 'Metadata');
    for (const [key, value] of file.metadata) lines.push(`  ${plain(key)} = ${valueText(value)}`);
  }
  if (tensors) {
    lines.push('', 'Tensors');
    for (const tensor of model.parts.flatMap((part) => part.tensors)) {
      lines.push(`  ${plain(tensor.name)}  ${tensor.type}  ${tensor.shape.join(' × ')}  ${bytes(tensor.sizeBytes)}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

function asJson(model: ModelFile, { all, tensors }: Parts): string {
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
    quantisation: model.quantisation,
    context_length: model.contextTrain,
    embedding_size: model.embeddingSize,
    layers: model.layers,
    vocabulary_size: model.vocabSize,
    chat_template: model.hasChatTemplate,
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
    return [key, value.items.length === value.length ? value.items : { item_type: value.itemType, length: value.length, first: value.items }];
  }));
}

/** 64-bit numbers as numbers where they are exact, else as text. */
function replaceBigint(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

function valueText(value: MetadataValue): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object') return String(value);
  if ('lengthBytes' in value) return `a text of ${bytes(value.lengthBytes)}`;
  const first = value.items.slice(0, 8).map(valueText).join(', ');
  return `[${first}${value.length > 8 ? ', …' : ''}] (${value.length} × ${value.itemType})`;
}

/** Text from a file for a terminal: control characters as escapes. */
function plain(value: string): string {
  const quoted = JSON.stringify(value).slice(1, -1);
  return quoted.replaceAll('\\"', '"').replaceAll('\\\\', '\\');
}

function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = count;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return unit === 0 ? `${count} bytes` : `${size.toFixed(2)} ${units[unit]}`;
}

function parameters(count: number): string {
  for (const [size, suffix] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']] as const) {
    if (count >= size) return `${(count / size).toFixed(2)} ${suffix}`;
  }
  return String(count);
}
