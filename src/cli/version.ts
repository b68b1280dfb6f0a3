// `recua version`: Recua's version and the llama.cpp it is built on.
import { readFileSync } from 'node:fs';
import { command } from './command.js';
import { misuse, on, perCall } from './flags.js';
import { print } from './output.js';

function readField(file: string, field: string): string {
  const value = JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')) as Record<string, unknown>;
  return String(value[field]);
}

export function recuaVersion(): string {
  return readField('../../package.json', 'version');
}

export function llamaCppVersion(): string {
  return readField('../../vendor/llama.cpp.json', 'version');
}

export const version = command({
  name: 'version',
  aliases: ['--version', '-v'],
  operands: '',
  summary: 'Print the version of Recua and of its llama.cpp',
  details: '',
  flags: { json: perCall(on(['--json'], 'Print JSON')) },
  async run({ values, operands }) {
    if (operands.length > 0) throw misuse(`Expected no argument, got ${operands.join(' ')}.`);
    await print(values.json ? `${JSON.stringify({ version: recuaVersion(), llama_cpp: llamaCppVersion() }, null, 2)}\n` : `recua ${recuaVersion()} (llama.cpp ${llamaCppVersion()})\n`);
    return 0;
  },
});
