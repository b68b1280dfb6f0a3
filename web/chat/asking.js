// Builds the request for a conversation and reads the streamed answer. The API view shows the same
// request body as code.
import { models } from '../app/models.js';
import { events, json, ServerError } from '../app/server.js';
import { cutOff, isCut, serverId, serverIsBack, Watch } from './connection.js';
import { sizeOf, wireMessages } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

const mostCount = 2 ** 31 - 1;

/**
 * Settings that the request carries under the same name, with the values that the server takes.
 * @typedef {{ name: string, label: string, step: string, min: number, max: number, hint: string }} NumberSetting
 * @type {NumberSetting[]}
 */
export const numbers = [
  { name: 'temperature', label: 'Temperature', step: '0.05', min: 0, max: 100, hint: 'Randomness of the next token; 0 always takes the most likely one' },
  { name: 'top_p', label: 'Top P', step: '0.01', min: 0, max: 1, hint: 'Samples from the most likely tokens whose probabilities add up to this' },
  { name: 'top_k', label: 'Top K', step: '1', min: -1, max: mostCount, hint: 'Samples from this many of the most likely tokens; 0 means all' },
  { name: 'min_p', label: 'Min P', step: '0.01', min: 0, max: 1, hint: 'Drops tokens less likely than this fraction of the most likely one' },
  { name: 'repeat_penalty', label: 'Repeat penalty', step: '0.01', min: 0.01, max: 100, hint: 'Above 1 makes tokens that already occurred less likely' },
  { name: 'presence_penalty', label: 'Presence penalty', step: '0.1', min: -2, max: 2, hint: 'Above 0 makes tokens that already occurred less likely, however often' },
  { name: 'frequency_penalty', label: 'Frequency penalty', step: '0.1', min: -2, max: 2, hint: 'Above 0 makes tokens less likely each time they occur' },
  { name: 'max_tokens', label: 'Max tokens', step: '1', min: 1, max: mostCount, hint: 'The longest answer, in tokens' },
  { name: 'seed', label: 'Seed', step: '1', min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER, hint: 'The same seed gives the same answer; without one each answer differs' },
];

/**
 * What is wrong with a value, as the end of a sentence; '' if nothing is.
 * @param {NumberSetting} setting @param {unknown} value
 */
export function wrongNumber({ step, min, max }, value) {
  if (value === undefined || (typeof value === 'number' && value >= min && value <= max && (step !== '1' || Number.isInteger(value)))) return '';
  return `must be a ${step === '1' ? 'whole number' : 'number'} from ${min} to ${max}`;
}

/** After so many broken connections in a row that brought nothing new, the answer fails. */
const mostInVain = 5;

/** Least time between two pieces of text. More often than it is drawn would be work for nothing. */
const intervalMs = 50;

/**
 * @param {Conversation} conversation
 * @param {Message[]} path the model answers its last message, or continues it
 * @param {string} model
 */
export function bodyOf({ settings }, path, model) {
  /** @type {Record<string, any>} */
  const body = { model, messages: wireMessages(path, settings['system'] ?? ''), stream: true, stream_options: { include_usage: true, interval_ms: intervalMs }, timings_per_token: true };
  for (const { name } of numbers) if (settings[name] !== undefined) body[name] = settings[name];
  if (settings['thinking'] === 'off') body['enable_thinking'] = false;
  const schema = parsed(settings['schema']);
  if (schema !== undefined) body['response_format'] = { type: 'json_schema', json_schema: { name: 'answer', schema } };
  const tools = parsed(settings['tools']);
  if (Array.isArray(tools) && tools.length > 0) body['tools'] = tools;
  return body;
}

/** Parses JSON that the user wrote. Undefined if it is empty or invalid. @param {string | undefined} text */
export function parsed(text) {
  try {
    return text?.trim() ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether a setting of JSON, `schema` or `tools`, holds something else than the request takes.
 * @param {'schema' | 'tools'} name @param {string | undefined} text
 */
export function wrongJson(name, text) {
  if (!text?.trim()) return '';
  try {
    const value = JSON.parse(text);
    const isRight = name === 'tools' ? Array.isArray(value) : typeof value === 'object' && value !== null && !Array.isArray(value);
    return isRight ? '' : `${name === 'tools' ? 'A list of tools' : 'A JSON object'} is expected here.`;
  } catch (thrown) {
    return `This is not valid JSON: ${/** @type {Error} */ (thrown).message}.`;
  }
}

/** @param {Conversation} conversation */
export const hasSchema = ({ settings }) => parsed(settings['schema']) !== undefined;

/**
 * Adds the streamed answer to the message. Returns when the answer is complete, and throws if the
 * stream fails first.
 * @param {Record<string, any>} body
 * @param {Message} message
 * @param {() => void} grown
 * @param {AbortSignal} signal
 * @param {() => void} heard called for every event, even one without text
 */
export async function answer(body, message, grown, signal, heard) {
  const startMs = performance.now();
  const before = body['continue_final_message'] ? message.stats : undefined;
  let firstMs = 0;
  for await (const event of events('v1/chat/completions', body, signal)) {
    heard();
    const [choice] = event.choices ?? [];
    if (choice) {
      if (add(message, choice.delta ?? {})) {
        // The first token tells that the model is loaded.
        if (firstMs === 0 && models.find(body['model'])?.status.value !== 'loaded') void models.refresh();
        firstMs ||= performance.now() - startMs;
        grown();
      }
      if (choice.finish_reason) message.finish = choice.finish_reason;
    }
    if (event.timings) message.stats = withBefore(statsOf(event, firstMs), before);
  }
}

/** @param {Message} message @param {Record<string, any>} delta */
function add(message, { content, reasoning_content: reasoning, tool_calls: calls }) {
  if (content) message.content += content;
  if (reasoning) message.reasoning = (message.reasoning ?? '') + reasoning;
  for (const call of calls ?? []) {
    const list = (message.toolCalls ??= []);
    const known = (list[call.index] ??= { id: call.id ?? '', name: '', arguments: '' });
    known.name += call.function?.name ?? '';
    known.arguments += call.function?.arguments ?? '';
  }
  return Boolean(content || reasoning || calls);
}

/** Each piece has timings, the last one also the usage. @param {Record<string, any>} event @param {number} firstMs */
function statsOf({ usage, timings }, firstMs) {
  return {
    promptTokens: timings.cache_n + timings.prompt_n,
    cachedTokens: timings.cache_n,
    tokens: timings.predicted_n,
    perSecond: timings.predicted_per_second,
    firstMs,
    reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens,
  };
}

/**
 * The figures of an answer and of its continuation together.
 * @param {import('./tree.js').Stats} now @param {import('./tree.js').Stats | undefined} before
 */
function withBefore(now, before) {
  if (!before) return now;
  const { promptTokens, cachedTokens, firstMs, tokens, perSecond } = before;
  // The end alone has no speed.
  return {
    ...now,
    promptTokens,
    cachedTokens,
    firstMs,
    tokens: tokens + now.tokens,
    perSecond: now.tokens > 1 ? now.perSecond : perSecond,
  };
}

/**
 * What is wrong with the settings, as a sentence; '' if nothing is.
 * @param {Conversation} conversation
 */
export function wrongIn({ settings }) {
  const wrong = /** @type {const} */ (['schema', 'tools']).find((name) => wrongJson(name, settings[name]) !== '');
  if (wrong) return `Not sent: the ${wrong} in the chat settings ${wrong === 'schema' ? 'is not a JSON object' : 'are not a JSON list'}. Correct it or clear the field.`;
  const number = numbers.find((one) => wrongNumber(one, settings[one.name]) !== '');
  return number ? `Not sent: ${number.label} in the chat settings ${wrongNumber(number, settings[number.name])}.` : '';
}

/** Whether the conversation does not fit in the model's context. @param {unknown} thrown */
export const isTooLong = (thrown) => thrown instanceof ServerError && thrown.code === 'context_length_exceeded';

/**
 * Drops the parts of a cut answer that the model cannot continue: partial tool calls and partial
 * JSON of a schema. Returns whether anything is left to continue.
 * @param {Message} message @param {Conversation} conversation
 */
export function restartOf(message, conversation) {
  delete message.toolCalls;
  if (hasSchema(conversation)) {
    message.content = '';
    delete message.reasoning;
  }
  return Boolean(message.content || message.reasoning);
}

/**
 * The server's limit of an answer's tokens; 0 if it does not tell. A request that continues an
 * answer would get as many once more.
 * @param {string} model
 */
const usualMost = (model) => json(`props?model=${encodeURIComponent(model)}`, { quietly: true })
  .then((/** @type {any} */ props) => Number(props.default_generation_settings.params.max_tokens) || 0, () => 0);

/** How many more tokens an answer that was cut may have. @param {Message} message @param {number} most */
const tokensLeft = ({ stats, tokensBefore = 0 }, most) => Math.max(1, most - (stats?.tokens ?? tokensBefore) + tokensBefore);

/**
 * Reads the whole answer, across broken connections: after each break the model continues where the
 * text ends. If the server restarted meanwhile, or connections bring nothing, this throws, and the
 * user decides whether to continue.
 * @param {Message} message
 * @param {import('./running-answers.js').Running} running
 * @param {Conversation} conversation @param {boolean} continued @param {() => void} grown
 */
export async function wholeAnswer(message, running, conversation, continued, grown) {
  const { signal } = running.stop;
  const server = serverId(signal).catch(() => undefined);
  const path = running.path.slice(0, -1);
  /** @param {boolean} connecting */
  const tell = (connecting) => {
    running.connecting = connecting;
    for (const watcher of running.watchers) watcher();
  };
  let longest = sizeOf(message);
  let inVain = 0;
  for (let isFirst = true; ; isFirst = false) {
    const body = bodyOf(conversation, continued ? running.path : path, message.model ?? '');
    if (continued) {
      body['continue_final_message'] = true;
      const most = body['max_tokens'] ?? await usualMost(body['model']);
      if (most > 0) body['max_tokens'] = tokensLeft(message, most);
    } else delete message.tokensBefore;
    const watch = new Watch();
    try {
      return await answer(body, message, grown, AbortSignal.any([signal, watch.signal]), () => {
        watch.heard();
        if (running.connecting) tell(false);
      });
    } catch (thrown) {
      // Only the end of the stream is missing.
      if (message.finish) return;
      const broke = watch.signal.aborted ? cutOff() : thrown;
      // A server that the first attempt could not reach is not waited for.
      if (signal.aborted || !isCut(broke) || (isFirst && /** @type {ServerError} */ (broke).code === 'unreachable')) throw broke;
      inVain = sizeOf(message) > longest ? 0 : inVain + 1;
      if (inVain >= mostInVain) throw broke;
      longest = Math.max(longest, sizeOf(message));
    } finally {
      watch.close();
    }
    tell(true);
    const before = await server;
    const now = await serverIsBack(signal);
    if (before !== undefined && now !== undefined && before !== now) throw new ServerError('The server restarted and lost this answer before it was complete.', 'restarted');
    continued = restartOf(message, conversation);
  }
}
