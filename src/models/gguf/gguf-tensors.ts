// The tensor table of a GGUF file: names, shapes and offsets, checked against the types' sizes and
// the file's length.
import { countText } from './cursor.js';
import type { Cursor } from './cursor.js';
import { tensorTypes } from './tensor-types.js';

export interface Tensor {
  name: string;
  /** 1 to 4 dimensions, the fastest-varying first. */
  shape: readonly number[];
  type: string;
  elements: number;
  sizeBytes: number;
  /** Offset from the start of tensor data. */
  offset: number;
}

const limits = {
  tensors: 65_536,
  /** ggml reserves 64 bytes for a name, including its terminator. */
  nameBytes: 63,
  dimensions: 4,
  /** Name length, dimension count, one dimension, type, offset. */
  entryBytes: 8 + 4 + 8 + 4 + 8,
} as const;

export async function readTensors(cursor: Cursor, count: number, alignment: number): Promise<Tensor[]> {
  if (count > limits.tensors || count * limits.entryBytes > cursor.remaining) {
    throw cursor.invalid(`it claims ${countText(count)} tensors, more than it has room for or the ${limits.tensors} that are allowed`, 8);
  }
  const tensors: Tensor[] = [];
  const names = new Set<string>();
  for (let i = 0; i < count; i++) {
    const start = cursor.offset;
    const tensor = await readTensor(cursor, i, alignment);
    if (names.has(tensor.name)) throw cursor.invalid(`the tensor "${tensor.name}" comes twice`, start);
    names.add(tensor.name);
    tensors.push(tensor);
  }
  return tensors;
}

async function readTensor(cursor: Cursor, index: number, alignment: number): Promise<Tensor> {
  const start = cursor.offset;
  await cursor.need(8, `tensor ${index}`);
  const nameBytes = cursor.count();
  if (nameBytes > limits.nameBytes) throw cursor.invalid(`the name of tensor ${index} claims ${countText(nameBytes)} bytes, ${limits.nameBytes} are allowed`, start);
  await cursor.need(nameBytes + 4, `tensor ${index}`);
  const name = cursor.text(nameBytes);
  // llama.cpp reads names up to a NUL, so it would take this one for another, unchecked.
  if (name.includes('\0')) throw cursor.invalid(`the tensor name ${JSON.stringify(name)} contains a NUL`, start);
  const dimensions = cursor.u32();
  if (dimensions < 1 || dimensions > limits.dimensions) throw cursor.invalid(`tensor "${name}" has ${dimensions} dimensions, expected 1 to 4`, start);
  await cursor.need(dimensions * 8 + 12, `tensor "${name}"`);
  const shape: number[] = [];
  for (let i = 0; i < dimensions; i++) shape.push(cursor.count());
  const type = cursor.u32();
  const offset = cursor.count();
  return measure(cursor, { name, shape, type, offset }, alignment, start);
}

/** Types that only lists of numbers have. As a matrix they would abort the engine. */
const noWeights: ReadonlySet<string> = new Set(['I8', 'I16', 'I32', 'I64', 'F64']);
/** A table of experts by token, of whole numbers (DeepSeek 4). */
const isIndex = /\.ffn_gate_tid2eid\b/;

/** Computes a tensor's size; checks each product before it can exceed exact numbers. */
function measure(
  cursor: Cursor, { name, shape, type: typeNumber, offset }: { name: string; shape: number[]; type: number; offset: number },
  alignment: number, start: number,
): Tensor {
  const type = tensorTypes.get(typeNumber);
  if (!type) throw cursor.invalid(`tensor "${name}" has the type ${typeNumber}, which is unknown or no longer in use`, start);
  if (shape.length > 1 && noWeights.has(type.name) && !isIndex.test(name)) throw cursor.invalid(`tensor "${name}" is a matrix of ${type.name}, with which llama.cpp cannot compute`, start);
  let elements = 1;
  for (const size of shape) {
    elements *= size;
    // 2^53 elements is a thousand times the largest model; a size of 0 holds nothing.
    if (size < 1 || elements > Number.MAX_SAFE_INTEGER) throw cursor.invalid(`tensor "${name}" has the impossible shape ${shape.map(countText).join(' × ')}`, start);
  }
  if (shape[0]! % type.blockElements !== 0) {
    throw cursor.invalid(`tensor "${name}" has rows of ${shape[0]}, but ${type.name} comes in blocks of ${type.blockElements}`, start);
  }
  const sizeBytes = elements / type.blockElements * type.blockBytes;
  if (sizeBytes > cursor.sizeBytes) {
    throw cursor.cutOff(`tensor "${name}" (${type.name}, ${shape.join(' × ')}) needs ${countText(sizeBytes)}`);
  }
  if (offset > cursor.sizeBytes) throw cursor.cutOff(`tensor "${name}" begins at byte ${countText(offset)} of its data`);
  if (offset % alignment !== 0) throw cursor.invalid(`tensor "${name}" begins at ${countText(offset)}, which is not a multiple of ${alignment}`, start);
  return { name, shape, type: type.name, elements, sizeBytes, offset };
}

/** llama.cpp takes tensors of a mapped file only at multiples of this. */
const leastAlignment = 32;

/** Checks that every tensor is inside the file, that none overlap, and where they begin. */
export function checkLayout(cursor: Cursor, tensors: readonly Tensor[], dataOffset: number): void {
  const byPlace = [...tensors].sort((a, b) => a.offset - b.offset);
  let end = 0;
  let before = '';
  for (const tensor of byPlace) {
    const start = dataOffset + tensor.offset;
    if (start % leastAlignment !== 0) throw cursor.invalid(`tensor "${tensor.name}" begins at byte ${start}, which is not a multiple of ${leastAlignment}`, start);
    if (tensor.offset < end) throw cursor.invalid(`the tensors "${before}" and "${tensor.name}" overlap`, start);
    end = tensor.offset + tensor.sizeBytes;
    before = tensor.name;
  }
  const missing = dataOffset + end - cursor.sizeBytes;
  if (byPlace.length > 0 && missing > 0) {
    throw cursor.invalid(`it is cut off: the data of tensor "${before}" ends at byte ${dataOffset + end}, the file ${missing} bytes before; download it again`, cursor.sizeBytes);
  }
}
