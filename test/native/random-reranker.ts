// Rerankers with random weights and a real vocabulary from the vendored tree: one that sees a whole
// input at once (BERT), and one made from a chat model, with a prompt text and a head of two labels
// (Qwen 3). Always the same bytes.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gguf, types, type Meta, type TensorSpec } from '../models/gguf-bytes.js';

const width = 64;
const feedForward = 128;
const layers = 2;
const contextSize = 512;
const f32 = 0;

interface Shape {
  vocabulary: string;
  metadata: Meta[];
  tensors(vocabulary: number): [name: string, shape: number[]][];
}

const common = (architecture: string): Meta[] => [
  ['general.architecture', types.string, architecture],
  [`${architecture}.block_count`, types.u32, layers],
  [`${architecture}.context_length`, types.u32, contextSize],
  [`${architecture}.embedding_length`, types.u32, width],
  [`${architecture}.feed_forward_length`, types.u32, feedForward],
  [`${architecture}.attention.head_count`, types.u32, 4],
];

const both = (name: string, shape: number[]): [string, number[]][] => [[`${name}.weight`, shape], [`${name}.bias`, [shape.at(-1)!]]];

const shapes = {
  bert: {
    vocabulary: 'bert-bge',
    metadata: [
      ...common('bert'),
      ['bert.attention.layer_norm_epsilon', types.f32, 1e-6],
      ['bert.attention.causal', types.bool, false],
      ['bert.pooling_type', types.u32, 4],
    ],
    tensors: (vocabulary) => [
      ['token_embd.weight', [width, vocabulary]], ['token_types.weight', [width, 2]], ['position_embd.weight', [width, contextSize]],
      ...both('token_embd_norm', [width]), ...both('cls', [width, width]), ...both('cls.output', [width, 1]),
      ...Array.from({ length: layers }, (_, layer) => [
        ...both('attn_q', [width, width]), ...both('attn_k', [width, width]), ...both('attn_v', [width, width]), ...both('attn_output', [width, width]),
        ...both('attn_output_norm', [width]), ...both('ffn_up', [width, feedForward]), ...both('ffn_down', [feedForward, width]), ...both('layer_output_norm', [width]),
      ].map(([name, shape]) => [`blk.${layer}.${name}`, shape] as [string, number[]])).flat(),
    ],
  },
  qwen3: {
    vocabulary: 'qwen2',
    metadata: [
      ...common('qwen3'),
      ['qwen3.attention.head_count_kv', types.u32, 2],
      ['qwen3.attention.key_length', types.u32, width / 4],
      ['qwen3.attention.value_length', types.u32, width / 4],
      ['qwen3.attention.layer_norm_rms_epsilon', types.f32, 1e-6],
      ['qwen3.rope.freq_base', types.f32, 10_000],
      ['qwen3.pooling_type', types.u32, 4],
      ['qwen3.classifier.output_labels', types.array, ['yes', 'no'], types.string],
      ['tokenizer.chat_template.rerank', types.string, '<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n'],
    ],
    tensors: (vocabulary) => [
      ['token_embd.weight', [width, vocabulary]], ['output_norm.weight', [width]], ['cls.output.weight', [width, 2]],
      ...Array.from({ length: layers }, (_, layer) => ([
        ['attn_norm', [width]], ['attn_q', [width, width]], ['attn_k', [width, width / 2]], ['attn_v', [width, width / 2]], ['attn_output', [width, width]],
        ['attn_q_norm', [width / 4]], ['attn_k_norm', [width / 4]], ['ffn_norm', [width]],
        ['ffn_gate', [width, feedForward]], ['ffn_up', [width, feedForward]], ['ffn_down', [feedForward, width]],
      ] as [string, number[]][]).map(([name, shape]) => [`blk.${layer}.${name}.weight`, shape] as [string, number[]])).flat(),
    ],
  },
} satisfies Record<string, Shape>;

export const rerankerNames = Object.keys(shapes) as (keyof typeof shapes)[];

interface Changes {
  /** Without the head and its metadata, it is an embedding model. */
  head?: boolean;
  /** Tensors to leave out. */
  without?: RegExp;
  more?: Meta[];
}

export async function writeReranker(
  name: keyof typeof shapes,
  path: string,
  { head = true, without, more = [] }: Changes = {},
): Promise<void> {
  const shape: Shape = shapes[name];
  const { readPairs } = (await import(new URL('../../bench/random-model.mjs', import.meta.url).href)) as {
    readPairs(path: string): { key: string; bytes: Buffer; length: number }[];
  };
  const pairs = readPairs(
    fileURLToPath(new URL(`../../vendor/llama.cpp/models/ggml-vocab-${shape.vocabulary}.gguf`, import.meta.url)),
  ).filter(({ key }) => key.startsWith('tokenizer.') && key !== 'tokenizer.chat_template');
  const vocabulary = pairs.find(({ key }) => key === 'tokenizer.ggml.tokens')!.length;
  const random = generator();
  const tensors: TensorSpec[] = [];
  const data: Buffer[] = [];
  let offset = 0;
  for (const [tensorName, dimensions] of shape
    .tensors(vocabulary)
    .filter(([each]) => (head || !each.startsWith('cls.')) && !without?.test(each))) {
    const values = new Float32Array(dimensions.reduce((product, n) => product * n, 1));
    const scale = /norm/.test(tensorName) ? 0.1 : 0.3;
    for (let i = 0; i < values.length; i++) values[i] = random() * scale + (/norm\.weight/.test(tensorName) ? 1 : 0);
    tensors.push({ name: tensorName, shape: dimensions, type: f32, offset });
    const padded = Buffer.alloc(Math.ceil(values.byteLength / 32) * 32);
    Buffer.from(values.buffer).copy(padded);
    data.push(padded);
    offset += padded.length;
  }
  const metadata = shape.metadata.filter(([key]) => head || !/pooling_type|classifier|rerank/.test(key));
  writeFileSync(path, Buffer.concat([gguf({ metadata: [...metadata, ...more, ...pairs.map(({ bytes }) => bytes)], tensors }), ...data]));
}

/** Repeatable numbers from −1 to 1 (mulberry32). */
function generator(): () => number {
  let state = 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}
