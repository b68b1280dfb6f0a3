// `recua run <model>`: one prompt, one answer, streamed to stdout as it comes.
import { makeConfig } from '../../settings/config.js';
import type { Answerer } from '../answering/answerer.js';
import { asksForOwnEngine, localFlag, openAnswerer, sayServer } from '../answering/open.js';
import { markUsed } from '../../models/store.js';
import { shellWord } from '../../models/names/shell-word.js';
import { findAndRead } from '../answering/find-model.js';
import { answerFlags, makeRequest, readConstraint } from '../flags/answer-flags.js';
import { command } from '../command.js';
import { deviceListing, listDevices } from '../devices.js';
import { engineConfig, engineFlags } from '../flags/engine-flags.js';
import { misuse, on, perCall, text } from '../flags/flags.js';
import { HeldErrors, say } from '../terminal/output.js';
import { watchSignals } from '../terminal/signals.js';
import { answerOnce, textRoom, printJson, readPrompt, sayEnd, speedLine } from '../single-turn.js';

export const run = command({
  name: 'run',
  aliases: [],
  operands: '<model> [prompt…]',
  summary: 'Answer one prompt',
  details: 'The prompt is the text after the model, or the value of -p. Text from stdin is appended after a blank line, or is the whole prompt. Only the answer goes to stdout. '
    + 'If one of your running servers has the model loaded, that server answers. A running server also answers if only it knows the name that you give, from its --alias or its models file. The model is loaded here instead with --local, or if a flag, a variable or the config file sets how to load it (such as -c, -ngl or --threads).',
  examples: [
    ['recua run builtin "Tell me a story"', 'Answer a prompt'],
    ['git diff | recua run builtin -p "Sum this up:"', 'Append stdin to the prompt'],
    ['recua run builtin -p "Is it?" -g \'root ::= "yes" | "no"\'', 'Allow only two answers'],
  ],
  often: ['prompt', 'system', 'temperature', 'maxTokens', 'contextSize', 'gpuLayers', 'json', 'raw', 'quiet', 'verbose'],
  flags: {
    prompt: perCall(text(['--prompt', '-p'], 'text', 'Answer this prompt; text from stdin is appended after a blank line')),
    ...answerFlags({ maxTokens: 512 }),
    ...localFlag,
    ...engineFlags,
    verbose: perCall(on(['--verbose'], 'Print a line about the speed on stderr at the end')),
    ...deviceListing,
  },
  async run({ values, operands, given }) {
    if (values.listDevices) return await listDevices(values.json);
    if (values.json && values.raw) throw misuse('Expected --raw or --json, got both.');
    const [name, ...words] = operands;
    if (name === undefined) throw misuse('Expected a model: recua run <model> "<prompt>".');
    if (words.length > 0 && values.prompt !== '') throw misuse('Expected the prompt after the model or with -p, got both.');
    const asked = words.length > 0 ? words.join(' ') : values.prompt;
    const constraint = await readConstraint(values);
    const stop = watchSignals();
    const own = asksForOwnEngine(values, given);
    const { model, file } = await findAndRead(name, { own, signal: stop.signal, quiet: values.quiet });
    await markUsed(model);
    const config = makeConfig({ ...await engineConfig(values), parallel: 1, model: model.path });
    const prompt = await readPrompt(asked, textRoom(file, config.contextSize), stop.signal, 'in quotes after the model, with -p <text>', ` To chat: recua chat ${shellWord(name)}`);
    const request = makeRequest([
      ...(values.system === '' ? [] : [{ role: 'system' as const, content: values.system }]),
      { role: 'user', content: prompt },
    ], values, constraint);
    const held = new HeldErrors();
    const read = { name, id: model.id, path: model.path, file, config };
    let answerer: Answerer | undefined;
    try {
      answerer = await openAnswerer(read, { own, quiet: values.quiet, chats: false, settings: held }, stop.signal);
      sayServer(answerer, values.quiet);
      const answer = await answerOnce(answerer, request, values, stop.signal);
      if (values.json) await printJson(answer);
      sayEnd(answer, values.quiet, values.maxTokens);
      if (values.verbose) say(speedLine(answer.finish));
      return 0;
    } catch (thrown) {
      held.tell(thrown);
      throw thrown;
    } finally {
      await answerer?.close();
      held.tell();
      stop.release();
    }
  },
});
