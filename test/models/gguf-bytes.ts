// Writes small GGUF files for tests: valid ones and every kind of broken one.

type Item = number | bigint | string | boolean;
export type Meta = [key: string, type: number, value: Item | Item[], itemType?: number];
export interface TensorSpec { name: string; shape: (number | bigint)[]; type: number; offset: number | bigint }

export const types = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
  return bytes;
}

export function text(value: string): Buffer {
  return Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
}

function scalar(type: number, value: Item): Buffer {
  switch (type) {
    case types.u8: case types.i8: case types.bool: return Buffer.from([Number(value) & 0xff]);
    case types.u16: case types.i16: return u32(Number(value)).subarray(0, 2);
    case types.u32: case types.i32: return u32(Number(value));
    case types.f32: { const bytes = Buffer.alloc(4); bytes.writeFloatLE(Number(value)); return bytes; }
    case types.f64: { const bytes = Buffer.alloc(8); bytes.writeDoubleLE(Number(value)); return bytes; }
    case types.u64: case types.i64: return u64(BigInt(value as number));
    case types.string: return text(String(value));
    default: return Buffer.alloc(0);
  }
}

export function meta([key, type, value, itemType]: Meta): Buffer {
  if (!Array.isArray(value)) return Buffer.concat([text(key), u32(type), scalar(type, value)]);
  return Buffer.concat([text(key), u32(type), u32(itemType!), u64(value.length), ...value.map((item) => scalar(itemType!, item))]);
}

export function tensor({ name, shape, type, offset }: TensorSpec): Buffer {
  return Buffer.concat([text(name), u32(shape.length), ...shape.map(u64), u32(type), u64(offset)]);
}

export interface Spec {
  version?: number;
  metadata?: (Meta | Buffer)[];
  tensors?: (TensorSpec | Buffer)[];
  /** Instead of the true ones. */
  tensorCount?: number | bigint;
  keyCount?: number | bigint;
  dataBytes?: number;
  alignment?: number;
}

export function gguf({ version = 3, metadata = [], tensors = [], tensorCount, keyCount, dataBytes = 0, alignment = 32 }: Spec): Buffer {
  const header = Buffer.concat([
    Buffer.from('GGUF'), u32(version), u64(tensorCount ?? tensors.length), u64(keyCount ?? metadata.length),
    ...metadata.map((one) => (Buffer.isBuffer(one) ? one : meta(one))),
    ...tensors.map((one) => (Buffer.isBuffer(one) ? one : tensor(one))),
  ]);
  const padding = tensors.length > 0 ? (alignment - header.length % alignment) % alignment : 0;
  return Buffer.concat([header, Buffer.alloc(padding + dataBytes)]);
}

/** The header of a small valid model: two tensors, a vocabulary of three. */
export const sound: Spec = {
  metadata: [
    ['general.architecture', types.string, 'llama'],
    ['general.name', types.string, 'Tiny'],
    ['general.file_type', types.u32, 7],
    ['llama.context_length', types.u32, 128],
    ['llama.embedding_length', types.u32, 32],
    ['llama.block_count', types.u64, 2],
    ['tokenizer.ggml.tokens', types.array, ['a', 'b', '<0x0A>'], types.string],
    ['tokenizer.ggml.token_type', types.array, [1, 1, 6], types.i32],
    ['tokenizer.chat_template', types.string, '{{ messages }}'],
  ],
  tensors: [
    { name: 'token_embd.weight', shape: [32, 3], type: 8, offset: 0 },
    { name: 'output_norm.weight', shape: [32], type: 0, offset: 128 },
  ],
  dataBytes: 256,
};
