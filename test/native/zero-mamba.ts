// A small recurrent model (Mamba) whose tokens are bytes and whose weights are all 0: for tests of
// its state.
import { writeFileSync } from 'node:fs';
import { gguf, types, type TensorSpec } from '../models/gguf-bytes.js';

const width = 32;
const inner = 2 * width;
const state = 8;
const tokens = ['<s>', ...Array.from({ length: 256 }, (_, byte) => `\\x${byte.toString(16).padStart(2, '0')}`)];
const f32 = 0;

const shapes: [name: string, shape: number[]][] = [
  ['token_embd.weight', [width, tokens.length]], ['output_norm.weight', [width]],
  ['blk.0.attn_norm.weight', [width]], ['blk.0.ssm_in.weight', [width, 2 * inner]],
  ['blk.0.ssm_conv1d.weight', [4, inner]], ['blk.0.ssm_conv1d.bias', [inner]],
  ['blk.0.ssm_x.weight', [inner, 4 + 2 * state]],
  ['blk.0.ssm_dt.weight', [4, inner]], ['blk.0.ssm_dt.bias', [inner]],
  ['blk.0.ssm_a', [state, inner]], ['blk.0.ssm_d', [inner]], ['blk.0.ssm_out.weight', [inner, width]],
];

export function writeMamba(path: string): void {
  const tensors: TensorSpec[] = [];
  let offset = 0;
  for (const [name, shape] of shapes) {
    tensors.push({ name, shape, type: f32, offset });
    offset += Math.ceil(shape.reduce((product, n) => product * n, 4) / 32) * 32;
  }
  writeFileSync(path, gguf({
    metadata: [
      ['general.architecture', types.string, 'mamba'],
      ['mamba.block_count', types.u32, 1], ['mamba.context_length', types.u32, 512], ['mamba.embedding_length', types.u32, width],
      ['mamba.feed_forward_length', types.u32, 0], ['mamba.attention.head_count', types.u32, 0], ['mamba.attention.layer_norm_rms_epsilon', types.f32, 1e-5],
      ['mamba.ssm.conv_kernel', types.u32, 4], ['mamba.ssm.inner_size', types.u32, inner], ['mamba.ssm.state_size', types.u32, state], ['mamba.ssm.time_step_rank', types.u32, 4],
      ['tokenizer.ggml.model', types.string, 'rwkv'], ['tokenizer.ggml.tokens', types.array, tokens, types.string],
    ],
    tensors,
    dataBytes: offset,
  }));
}
