// Writes a GGUF of a given llama shape with random Q8_0 weights and a real vocabulary from the
// vendored tree. Speed depends on shapes, not on weight values. For benchmarks, and for tests that
// need a large vocabulary. Usage: node bench/random-model.mjs NAME OUT.gguf
import { closeSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Shapes by name. `nano` is so small that only overhead shows, `135m` is SmolLM's, `1b` Llama
 * 3.2's, `8b` Llama 3.1's (for GPUs), `rows256` has rows that suit every quantization.
 */
export const shapes = {
  nano: { layers: 2, width: 64, heads: 4, kvHeads: 2, feedForward: 192, context: 32768, vocabulary: 'qwen2' },
  rows256: { layers: 2, width: 256, heads: 4, kvHeads: 4, feedForward: 512, context: 2048, vocabulary: 'llama-spm' },
  '1b': { layers: 16, width: 2048, heads: 32, kvHeads: 8, feedForward: 8192, context: 32768, vocabulary: 'qwen2' },
  '8b': { layers: 32, width: 4096, heads: 32, kvHeads: 8, feedForward: 14336, context: 32768, vocabulary: 'qwen2' },
  '135m': { layers: 30, width: 576, heads: 9, kvHeads: 3, feedForward: 1536, context: 32768, vocabulary: 'qwen2' },
};

const valueSizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]; // by GGUF value type; 8 is a string, 9 an array

/** Reads the key-value section of a GGUF and keeps each pair's bytes. */
export function readPairs(path) {
  const file = readFileSync(path);
  const count = Number(file.readBigUInt64LE(16));
  let at = 24;
  const skipString = () => { at += 8 + Number(file.readBigUInt64LE(at)); };
  const skipValue = (type) => {
    if (type === 8) return skipString();
    if (type !== 9) { at += valueSizes[type]; return undefined; }
    const element = file.readUInt32LE(at);
    const length = Number(file.readBigUInt64LE(at + 4));
    at += 12;
    if (element === 8) for (let i = 0; i < length; i++) skipString();
    else at += length * valueSizes[element];
    return undefined;
  };
  const pairs = [];
  for (let i = 0; i < count; i++) {
    const start = at;
    const keyLength = Number(file.readBigUInt64LE(at));
    const key = file.toString('utf8', at + 8, at + 8 + keyLength);
    skipString();
    const type = file.readUInt32LE(at);
    at += 4;
    const valueStart = at;
    skipValue(type);
    pairs.push({ key, bytes: file.subarray(start, at), length: type === 9 ? Number(file.readBigUInt64LE(valueStart + 4)) : 0 });
  }
  return pairs;
}

const text = (value) => {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(bytes.length));
  return Buffer.concat([length, bytes]);
};
const number = (write, size, value) => { const b = Buffer.alloc(size); b[write](value); return b; };
const u32 = (value) => number('writeUInt32LE', 4, value);
const u64 = (value) => number('writeBigUInt64LE', 8, BigInt(value));
const pair = {
  text: (key, value) => Buffer.concat([text(key), u32(8), text(value)]),
  u32: (key, value) => Buffer.concat([text(key), u32(4), u32(value)]),
  f32: (key, value) => Buffer.concat([text(key), u32(6), number('writeFloatLE', 4, value)]),
};

const F32 = 0;
const Q8_0 = 8;
const q8Scale = 0x0c80; // half-precision 2.7e-4: weights of standard deviation 0.02

function tensorsOf(shape, vocabulary) {
  const { layers, width, heads, kvHeads, feedForward } = shape;
  const kvWidth = (width / heads) * kvHeads;
  const list = [{ name: 'token_embd.weight', dims: [width, vocabulary], type: Q8_0 }];
  for (let layer = 0; layer < layers; layer++) {
    const add = (name, dims, type = Q8_0) => list.push({ name: `blk.${layer}.${name}.weight`, dims, type });
    add('attn_norm', [width], F32);
    add('attn_q', [width, width]);
    add('attn_k', [width, kvWidth]);
    add('attn_v', [width, kvWidth]);
    add('attn_output', [width, width]);
    add('ffn_norm', [width], F32);
    add('ffn_gate', [width, feedForward]);
    add('ffn_up', [width, feedForward]);
    add('ffn_down', [feedForward, width]);
  }
  list.push({ name: 'output_norm.weight', dims: [width], type: F32 });
  return list;
}

const elements = (tensor) => tensor.dims.reduce((product, n) => product * n, 1);
const sizeOf = (tensor) => (tensor.type === F32 ? elements(tensor) * 4 : (elements(tensor) / 32) * 34);
const aligned = (offset) => Math.ceil(offset / 32) * 32;

/** A small repeatable generator (xorshift), four bytes per call. */
function randomBytes(state) {
  let x = state;
  return (buffer) => {
    for (let i = 0; i + 4 <= buffer.length; i += 4) {
      x ^= x << 13; x ^= x >>> 17; x ^= x << 5;
      buffer.writeInt32LE(x | 0, i);
    }
  };
}

function weights(tensor, fill, doublings) {
  if (tensor.type === F32) {
    const ones = new Float32Array(elements(tensor)).fill(1);
    return Buffer.from(ones.buffer);
  }
  const bytes = Buffer.alloc(Math.ceil(sizeOf(tensor) / 4) * 4);
  fill(bytes);
  for (let at = 0; at < sizeOf(tensor); at += 34) bytes.writeUInt16LE(q8Scale + (doublings << 10), at);
  return bytes.subarray(0, sizeOf(tensor));
}

/**
 * Writes the model `name` of `shapes` to `out`, the same bytes every time.
 * @param {keyof typeof shapes} name
 * @param {string} out path of the GGUF file
 * @param {number} [doublings] how often to double the output matrix's weights: 0 gives all tokens
 *   nearly the same probability, 5 a distribution with a head
 */
export function writeRandomModel(name, out, doublings = 0) {
  const shape = shapes[name];
  const source = fileURLToPath(new URL(`../vendor/llama.cpp/models/ggml-vocab-${shape.vocabulary}.gguf`, import.meta.url));
  const kept = readPairs(source).filter(({ key }) => key.startsWith('tokenizer.') && key !== 'tokenizer.chat_template');
  const vocabulary = kept.find(({ key }) => key === 'tokenizer.ggml.tokens').length;
  const template = [
    '{% if tools %}<|im_start|>system\n# Tools\n\n<tools>{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools>\n\n',
    'Call one with <tool_call>\n{"name": NAME, "arguments": {}}\n</tool_call><|im_end|>\n{% endif %}',
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}',
    '{% for call in m.tool_calls or [] %}\n<tool_call>\n{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}',
    '<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}',
  ].join('');
  const pairs = [
    pair.text('general.architecture', 'llama'), pair.text('general.name', `random ${name}`), pair.u32('general.file_type', 7),
    pair.u32('llama.block_count', shape.layers), pair.u32('llama.context_length', shape.context), pair.u32('llama.embedding_length', shape.width),
    pair.u32('llama.feed_forward_length', shape.feedForward), pair.u32('llama.attention.head_count', shape.heads),
    pair.u32('llama.attention.head_count_kv', shape.kvHeads), pair.u32('llama.rope.dimension_count', shape.width / shape.heads),
    pair.f32('llama.attention.layer_norm_rms_epsilon', 1e-5), pair.f32('llama.rope.freq_base', 10000), pair.u32('llama.vocab_size', vocabulary),
    pair.text('tokenizer.chat_template', template), ...kept.map(({ bytes }) => bytes),
  ];
  const tensors = tensorsOf(shape, vocabulary);
  let offset = 0;
  const infos = tensors.map((tensor) => {
    const info = Buffer.concat([text(tensor.name), u32(tensor.dims.length), ...tensor.dims.map(u64), u32(tensor.type), u64(offset)]);
    offset = aligned(offset + sizeOf(tensor));
    return info;
  });
  const header = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(pairs.length), ...pairs, ...infos]);
  const partial = `${out}.partial`;
  const file = openSync(partial, 'w');
  const write = (bytes) => { writeSync(file, bytes); writeSync(file, Buffer.alloc(aligned(bytes.length) - bytes.length)); };
  write(header);
  const fill = randomBytes(0x9e3779b9);
  for (const tensor of tensors) write(weights(tensor, fill, tensor.name === 'token_embd.weight' ? doublings : 0));
  closeSync(file);
  renameSync(partial, out);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name, out] = process.argv.slice(2);
  if (!Object.hasOwn(shapes, name ?? '') || !out) {
    console.error(`Expected a shape (${Object.keys(shapes).join(', ')}) and a file to write, e.g. node bench/random-model.mjs nano nano.gguf`);
    process.exit(2);
  }
  writeRandomModel(name, out);
}
