// `recua version`: the version of Recua and of the llama.cpp it is built on.
import { ownInstallation } from '../../system/installation.js';
import { command } from '../command.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { print, toJson } from '../terminal/output.js';

export function recuaVersion(): string {
  return ownInstallation().version;
}

export function llamaCppVersion(): string {
  return ownInstallation().llamaCpp;
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
    await print(values.json ? toJson({ version: recuaVersion(), llama_cpp: llamaCppVersion() }) : `recua ${recuaVersion()} (llama.cpp ${llamaCppVersion()})\n`);
    return 0;
  },
});
