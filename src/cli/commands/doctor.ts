// `recua doctor`: what this installation has, what it can compute on, and what is wrong. doctor/
// has the checks and the report.
import type { AnyCommand } from '../command.js';
import { command } from '../command.js';
import { examine } from '../doctor/examination.js';
import { asJson, asText } from '../doctor/report.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { print, tame } from '../terminal/output.js';

export function makeDoctor(whole: () => Promise<readonly AnyCommand[]>): AnyCommand {
  return command({
    name: 'doctor',
    aliases: [],
    operands: '',
    summary: 'Check what this installation can compute on, and what is wrong with it',
    details: 'It checks the native addon and its backends, GPUs and their drivers, the model store, the config file and the background server (recua serve). '
      + 'It tries each GPU backend in its own process. Exit codes: 0 Recua can work, 1 it cannot.',
    examples: [['recua doctor', 'Print the whole report, problems last'], ['recua doctor --json', 'Print it for programs, or to attach to a bug report']],
    // Only per-call flags: a broken config file must not keep the doctor from running.
    flags: { json: perCall(on(['--json'], 'Print one JSON object')) },
    async run({ values, operands }) {
      if (operands.length > 0) throw misuse(`Expected no argument, got ${operands.join(' ')}.`);
      const result = await examine(await whole());
      await print(values.json ? asJson(result) : tame(asText(result)));
      return result.findings.some(({ level }) => level === 'fatal') ? 1 : 0;
    },
  });
}
