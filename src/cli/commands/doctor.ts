// `recua doctor`: what this installation has, what it can compute on, and what is wrong. doctor/
// has the examination and the report.
import type { AnyCommand } from '../command.js';
import { command } from '../command.js';
import { examine } from '../doctor/examination.js';
import { asJson, asText } from '../doctor/report.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { print } from '../terminal/output.js';

export function makeDoctor(whole: () => Promise<readonly AnyCommand[]>): AnyCommand {
  return command({
    name: 'doctor',
    aliases: [],
    operands: '',
    summary: 'Tell what this installation can compute on, and what is wrong with it',
    details: 'It checks the native addon and its backends, GPUs and their drivers, the model store, the config file and the managed server. '
      + 'Each GPU backend is tried in its own process. Exit code 0 if Recua can work, 1 if it cannot.',
    examples: [['recua doctor', 'The whole report, problems last'], ['recua doctor --json', 'For programs, or to attach to a report of a fault']],
    // None that a broken config file could keep from being read.
    flags: { json: perCall(on(['--json'], 'Print one JSON object')) },
    async run({ values, operands }) {
      if (operands.length > 0) throw misuse(`Expected no argument, got ${operands.join(' ')}.`);
      const result = await examine(await whole());
      await print(values.json ? asJson(result) : asText(result));
      return result.findings.some(({ level }) => level === 'fatal') ? 1 : 0;
    },
  });
}
