// `recua run <model>`: one prompt, one answer, streamed to stdout as it comes.
import { defaults, makeConfig, samplingDefaults } from '../config.js';
import type { Answer, Engine } from '../engine/api.js';
import { startEngine } from '../engine/client.js';
import type { ChatRequest, ModelDescription, Sampling } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { readModelFile } from '../models/model-file.js';
import { findModel, markUsed } from '../models/store.js';
import { command } from './command.js';
import { engineConfig, engineFlags, engineOptions, maxCount, readTextFile } from './engine-flags.js';
import { integer, misuse, on, perCall, real, text } from './flags.js';
import type { Values } from './flags.js';
import { LoadingLine, ReaderGone, makeLog, print, say, tame } from './output.js';
import { watchSignals } from './signals.js';

const flags = {
  prompt: perCall(text(['--prompt', '-p'], 'text', 'The prompt; text from stdin follows it after a blank line')),
  system: text(['--system', '-s'], 'text', 'System message before the prompt'),
  maxTokens: integer(['--max-tokens', '-n'], 'n', 'Most tokens to generate', { fallback: 512, min: 1, max: maxCount }),
  temperature: real(['--temp', '--temperature'], 'x', 'Temperature; 0 always takes the likeliest token', { fallback: defaults.temperature, min: 0, max: 100 }),
  topP: real(['--top-p'], 'x', 'Keep the likeliest tokens that add up to this probability; 1 is off', { fallback: samplingDefaults.topP, min: 0, max: 1 }),
  topK: integer(['--top-k'], 'n', 'Keep this many of the likeliest tokens; 0 is off', { fallback: samplingDefaults.topK, min: 0, max: maxCount }),
  minP: real(['--min-p'], 'x', 'Drop tokens below this share of the likeliest one\'s probability; 0 is off', { fallback: samplingDefaults.minP, min: 0, max: 1 }),
  repeatPenalty: real(['--repeat-penalty'], 'x', 'Penalty on tokens that came already; 1 is off', { fallback: samplingDefaults.repeatPenalty, min: 0.01, max: 100 }),
  seed: integer(['--seed'], 'n', 'Random seed; 0 draws one', { fallback: 0, min: 0, max: 2 ** 32 - 1 }),
  grammar: perCall(text(['--grammar', '-g'], 'gbnf', 'GBNF grammar that the answer has to follow')),
  grammarFile: perCall(text(['--grammar-file', '-gf'], 'file', 'File with such a grammar')),
  json: perCall(on(['--json'], 'Print one JSON object with the answer, usage and timings instead of the text')),
  quiet: on(['--quiet', '-q'], 'Say nothing about loading'),
  ...engineFlags,
} as const;

type RunValues = Values<typeof flags>;

export const run = command({
  name: 'run',
  aliases: [],
  operands: '<model>',
  summary: 'Answer one prompt',
  details: 'The prompt comes from -p, from stdin, or from both: then stdin follows -p after a blank line. Only the answer goes to stdout.',
  flags,
  async run({ values, operands, given }) {
    const [name, ...surplus] = operands;
    if (name === undefined) throw misuse('Expected a model: recua run <model> -p <text>.');
    if (surplus.length > 0) throw misuse(`Expected one model, got also ${surplus.join(' ')}. Put a prompt of several words in quotes after -p.`);
    if (given.has('grammar') && given.has('grammarFile')) throw misuse('Expected --grammar or --grammar-file, got both.');
    const model = await findModel(name);
    await readModelFile(model.path);
    await markUsed(model);
    const config = makeConfig({ ...await engineConfig(values), parallel: 1, model: model.path });
    const request = await makeRequest(values);
    const stop = watchSignals();
    const engine = startEngine(engineOptions(model.path, config), { log: makeLog('warn') });
    try {
      return await answer(engine, request, values, stop.signal, `Loading ${model.id}`);
    } finally {
      await engine.close(0);
      stop.release();
    }
  },
});

async function makeRequest(values: RunValues): Promise<ChatRequest> {
  const prompt = await readPrompt(values.prompt);
  const grammar = values.grammarFile === '' ? values.grammar : await readTextFile(values.grammarFile);
  return {
    messages: [
      ...(values.system === '' ? [] : [{ role: 'system' as const, content: values.system }]),
      { role: 'user', content: prompt },
    ],
    tools: [],
    toolChoice: 'none',
    parallelToolCalls: undefined,
    constraint: grammar === '' ? { kind: 'none' } : { kind: 'grammar', grammar },
    sampling: makeSampling(values),
    maxTokens: values.maxTokens,
    stop: [],
    enableThinking: true,
    templateKwargs: {},
    template: '',
  };
}

async function readPrompt(given: string): Promise<string> {
  const piped = process.stdin.isTTY ? '' : (await readStdin()).replace(/\r?\n$/, '');
  const prompt = [given, piped].filter((part) => part !== '').join('\n\n');
  if (prompt.trim() === '') throw misuse('Expected a prompt: give it with -p <text> or on stdin.');
  return prompt;
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  } catch (cause) {
    // A closed stdin (`<&-`) is the same as an empty one.
    if ((cause as NodeJS.ErrnoException).code !== 'EBADF') throw cause;
  }
  return Buffer.concat(chunks).toString('utf8');
}

function makeSampling({ temperature, topK, topP, minP, repeatPenalty, seed }: RunValues): Sampling {
  return {
    ...samplingDefaults, temperature, topK, topP, minP, repeatPenalty,
    mirostat: 0, seed: seed === 0 ? undefined : seed, logitBias: [], ignoreEos: false,
  };
}

async function answer(engine: Engine, request: ChatRequest, values: RunValues, signal: AbortSignal, label: string): Promise<number> {
  const { notes } = await load(engine, new LoadingLine(label, values.quiet), signal);
  if (!values.quiet) for (const note of notes) say(`Note: ${note}`);
  const running = engine.chat(request, signal);
  // Both promises reject together with the iterator; only the iterator is waited for all along.
  running.accepted.catch(() => undefined);
  running.finished.catch(() => undefined);
  const text = await stream(running, values.json, signal);
  const finish = await running.finished;
  if (values.json) {
    await print(`${JSON.stringify({
      content: text,
      finish_reason: finish.finishReason,
      usage: {
        prompt_tokens: finish.usage.promptTokens,
        completion_tokens: finish.usage.completionTokens,
        total_tokens: finish.usage.promptTokens + finish.usage.completionTokens,
      },
      timings: { prompt_ms: finish.timings.promptMs, predicted_ms: finish.timings.generateMs },
      seed: finish.seed,
    }, null, 2)}\n`);
  }
  for (const warning of finish.warnings) say(`recua: ${warning}`);
  if (finish.finishReason === 'length' && !values.quiet) say(`recua: the answer was cut off after ${finish.usage.completionTokens} tokens.`);
  return 0;
}

/** Waits for the model; a Ctrl-C meanwhile ends the wait. */
async function load(engine: Engine, line: LoadingLine, signal: AbortSignal): Promise<ModelDescription> {
  const timer = setInterval(() => {
    if (engine.state.state === 'loading') line.show(engine.state.fraction);
  }, 100);
  const stopped = new Promise<never>((_, reject) => {
    const stop = () => reject(new RecuaError('cancelled', 'Stopped while the model was loading.'));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([engine.ready(), stopped]);
  } finally {
    clearInterval(timer);
    line.end();
  }
}

/** Writes an answer's text as it comes and ends it with a line break; returns all of it. With `hold` nothing is written. */
async function stream(running: Answer, hold: boolean, signal: AbortSignal): Promise<string> {
  let whole = '';
  try {
    for await (const delta of running) {
      if (delta.content === undefined) continue;
      whole += delta.content;
      if (!hold) await print(process.stdout.isTTY ? tame(delta.content) : delta.content);
    }
  } catch (thrown) {
    if (thrown instanceof ReaderGone) throw thrown;
    if (whole !== '' && !hold) await print('\n');
    if (signal.aborted) throw new RecuaError('cancelled', 'Stopped.', { cause: thrown });
    throw thrown;
  }
  if (!hold && !whole.endsWith('\n')) await print('\n');
  return whole;
}
