// Parses and checks the body of POST /v1/responses → the engine's ChatRequest. Pure. Called by the
// dialect's routes. Unsupported fields that would change the answer are refused by name.
import type { ChatRequest } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import { RecuaError } from '../../errors.js';
import { readConstraint, readFormat, refuseBesideTools } from '../../request/constraint-fields.js';
import { int32Max, wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { readPriority } from '../../request/priority.js';
import { readSampling } from '../../request/sampling-fields.js';
import { boundTold, maxChancesOfResponse, maxTopLogprobs } from '../../request/telling-fields.js';
import { readThinking, readThoughts } from '../../request/thinking-fields.js';
import { readTruncation, readVerbosity } from '../../request/chat-fields.js';
import { unsupported } from '../../request/unsupported.js';
import type { ChatContext } from '../exchange/dialect.js';
import { echoOf } from './echo.js';
import { readItems, type Earlier } from './items.js';
import { readTools, type Namespaced } from './tools.js';

export interface ResponseBody {
  request: ChatRequest;
  tells: Telling;
  stream: boolean;
  store: boolean;
  previous: string | undefined;
  /** Input items, without those of previous responses. */
  input: readonly object[];
  customTools: readonly string[];
  /** Tools of namespaces, by the names that the model sees. */
  namespaced: ReadonlyMap<string, Namespaced>;
  /** Whether to include thinking in the opaque form that clients send back. */
  seals: boolean;
  background: boolean;
  warnings: readonly string[];
  /** Fields that the response echoes. */
  echo: Readonly<Record<string, unknown>>;
}

/** Fields that would change the answer, each with a test for values that request nothing. */
const neutral: Record<string, (value: unknown) => boolean> = {
  conversation: () => false,
  prompt: () => false,
};

/** `keeps`: the server stores responses. */
export function readResponseRequest(body: Fields, { defaults, model }: ChatContext, earlier: Earlier, keeps: boolean): ResponseBody {
  for (const [name, isNeutral] of Object.entries(neutral)) {
    const value = body.get(name);
    if (value === undefined || isNeutral(value)) continue;
    throw unsupported(name, value);
  }
  const sampling = readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize });
  const previous = body.string('previous_response_id') || undefined;
  const { messages, sources, items } = readItems(body, earlier);
  const truncation = readTruncation(body);
  const tools = readTools(body);
  const reasoning = body.fields('reasoning');
  const effort = reasoning?.word('effort', efforts);
  const most = body.integer('max_output_tokens', { min: 1, max: int32Max });
  const background = body.boolean('background') ?? false;
  const wanted = body.boolean('store') ?? true;
  if (background && !wanted) {
    throw new RecuaError('invalid_value', 'Expected store: true with background: true, since the client retrieves the response later; leave out one of them.', { param: 'store' });
  }
  if (background && !keeps) {
    throw new RecuaError('invalid_value', 'This server stores no responses (--response-days 0), and background responses must be stored; leave out background.', { param: 'background' });
  }
  const store = wanted && keeps;
  const unkept = body.get('store') === true && !keeps ? ['store has no effect: the server stores no responses (--response-days 0).'] : [];
  const include = (body.array('include', maxIncluded) ?? []).map(readIncluded);
  const tells = readTells(body, include, model.vocabSize);
  const maxTokens = boundTold(tells, most, defaults.maxTokens, model.contextSize, { most: maxChancesOfResponse });
  // A cancelled background response also reports its token counts.
  const asked: Telling = { ...tells, ...(background ? { timings: true } : {}) };
  const thoughts = readThoughts(body);
  const text = body.fields('text');
  const format = text?.fields('format');
  format?.allow('description');
  const constraint = readConstraint(body, { 'text.format': format && readFormat(format, true) });
  refuseBesideTools(constraint, tools.request);
  const verbosity = readVerbosity(text);
  reasoning?.allow('generate_summary');
  body.fields('stream_options')?.allow('include_usage', 'include_obfuscation');
  body.allow('client_metadata', 'prompt_cache_retention');
  return {
    request: {
      messages: JSON.stringify(messages),
      messageSources: sources,
      ...truncation,
      ...tools.request,
      constraint,
      sampling,
      maxTokens,
      stop: [],
      ...readThinking(body, { effort }),
      template: '',
      ...readPriority(body),
      ...(Object.keys(asked).length > 0 ? { tells: asked } : {}),
      ...(thoughts ? { thoughts } : {}),
    },
    tells,
    stream: body.boolean('stream') ?? false,
    store,
    previous,
    input: items,
    customTools: tools.custom,
    namespaced: tools.namespaced,
    warnings: [...tools.warnings, ...unkept, ...verbosity],
    seals: include.includes('reasoning.encrypted_content'),
    background,
    echo: {
      ...echoOf(body, sampling),
      max_output_tokens: most ?? null,
      previous_response_id: previous ?? null,
      store,
      top_logprobs: tells.logprobs ?? 0,
      ...truncation,
      reasoning: { effort: effort ?? null, summary: reasoning?.string('summary') ?? null },
    },
  };
}

const maxIncluded = 64;

/**
 * OpenAI's values. Those for tools that run on OpenAI's servers have no effect here.
 */
const includable = [
  'message.output_text.logprobs', 'reasoning.encrypted_content', 'file_search_call.results', 'web_search_call.results', 'web_search_call.action.sources',
  'message.input_image.image_url', 'computer_call_output.output.image_url', 'code_interpreter_call.outputs',
];

function readIncluded(what: unknown, index: number): string {
  const param = `include[${index}]`;
  if (typeof what !== 'string') throw wrongType(param, 'a string', what);
  if (!includable.includes(what)) throw wrongValue(param, `one of ${includable.map((word) => JSON.stringify(word)).join(', ')}`, what);
  return what;
}

/** Either field requests log probabilities. */
function readTells(body: Fields, include: readonly string[], vocabSize: number): Telling {
  const included = include.includes('message.output_text.logprobs');
  const top = body.integer('top_logprobs', { min: 0, max: maxTopLogprobs }) ?? 0;
  return included || top > 0 ? { logprobs: Math.min(top, vocabSize) } : {};
}

const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
