// How ggml's CPU backend is compiled: Recua's changes for some processors
// (cmake/cpu-backend.cmake). The effect shows only on such a processor
// (test/service/quantized.test.ts); this test reads the code on any.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));
const backend = join(root, 'build', 'Release', 'libggml-cpu.so');
const skip = process.arch !== 'x64' || process.platform !== 'linux' ? 'this is about x86-64'
  : existsSync(backend) && spawnSync('objdump', ['--version']).status === 0 ? false : 'there is no built backend, or no objdump';

t.test('dot products of F16 are not summed in F16', { skip }, async (t) => {
  const code = execFileSync('objdump', ['-d', '--no-show-raw-insn', '--disassemble=ggml_vec_dot_f16', backend], { encoding: 'utf8', maxBuffer: 2 ** 26 });
  t.match(code, /<ggml_vec_dot_f16>:/);
  t.notMatch(code, /\bv\w+ph\b.*%zmm/, 'steps of 128 values leave a head of 64 to one value at a time');
});

const noCompiler = spawnSync('c++', ['-mamx-tile', '-E', '-x', 'c++', '/dev/null']).status === 0 ? false : 'there is no compiler that knows AMX';

/**
 * What ggml does, with rows that the compiler can drop only if it believes that nobody reads them.
 */
const configure = `
#include <immintrin.h>
#include <stdint.h>
struct tile_config { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; };
void configure() {
  alignas(64) tile_config config = {};
  config.palette = 1;
  config.rows[6] = 77;
  config.bytes[6] = 12345;
  _tile_loadconfig(&config);
}
`;

t.test('a tile configuration is written completely before the processor reads it', { skip: skip || noCompiler }, async (t) => {
  const header = join(root, 'cmake', 'amx-tile-config.h');
  const compile = (...more: string[]): string => execFileSync(
    'c++', ['-x', 'c++', '-std=c++17', '-O3', '-mamx-tile', ...more, '-S', '-o', '-', '-'], { input: configure, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] });
  const written = (code: string): boolean[] => ['77', '12345'].map((value) => new RegExp(`\\$${value}\\b`).test(code));
  t.same(written(compile('-include', header)), [true, true]);
  t.comment(`without the header: ${written(compile()).join(', ')}`);
});
