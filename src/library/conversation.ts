// Runs a chat reply: asks the model, runs the tools it calls, asks again, and assembles the result.
// Called by Model.
import { WholeAnswer } from '../engine/whole-answer.js';
import type { Engine, Finish } from '../engine/api.js';
import type { ChatRequest, Delta, FinishReason, Timings, Usage } from '../engine/protocol.js';
import type { ToldToken } from '../engine/telling.js';
import { RecuaError } from '../errors.js';
import { logprobsOf, type AnswerLogprob } from './logprobs.js';
import { readArguments, readMessages, type Message, type ToolCall } from './messages.js';
import type { ReplyDelta, ReplyWork } from './reply.js';
import { checkBySchema, type Schema } from './schema.js';
import { runTools, type Tools } from './tools.js';

/** A whole answer. */
export interface ChatResult<Output = undefined> {
  /** The text. With tool calls in between, the texts of all rounds. */
  content: string;
  /** The model's thinking; `''` for models that do not think. */
  reasoning: string;
  /**
   * Calls that the program has to answer. Empty if there were none, or if the library ran their
   * tools. If `finishReason` is `'length'`, the library runs none of them, and the last one may be
   * cut: its arguments may be a text.
   */
  toolCalls: ToolCall[];
  /**
   * The parsed answer if a `schema` was given; undefined without one, or while `toolCalls` wait for
   * the program.
   */
  object: Output;
  /**
   * `'stop'`: the answer is complete; `'length'`: it was cut off; `'tool_calls'`: it waits for tool
   * results.
   */
  finishReason: FinishReason;
  /** Turns to append to the conversation to continue it: calls, results, answer. */
  messages: Message[];
  /** Token counts, summed over all tool rounds. */
  usage: Usage;
  /** Milliseconds, summed over all tool rounds. */
  timings: Timings;
  /**
   * The seed that reproduces this answer; with tool calls in between, only its first round, unless
   * the option `seed` was set.
   */
  seed: number;
  /**
   * Problems the program should know about, as sentences, e.g. a tool call that could not be
   * parsed.
   */
  warnings: string[];
  /** One entry per token, thinking and tool calls included, if the option `logprobs` is set. */
  logprobs?: AnswerLogprob[];
}

export interface Conversation {
  engine: Engine;
  request: ChatRequest;
  /** Offered after the first answer. */
  allTools: Pick<ChatRequest, 'tools' | 'toolSources'>;
  tools: Tools;
  maxToolRounds: number;
  schema: Schema | undefined;
}

interface Round {
  message: Extract<Message, { role: 'assistant' }>;
  finish: Finish;
  tokens: Iterable<ToldToken>;
}

export async function converse(
  { engine, request, allTools, tools, maxToolRounds, schema }: Conversation,
  work: ReplyWork,
): Promise<ChatResult<unknown>> {
  const rounds: Round[] = [];
  const messages: Message[] = [];
  let calls: readonly ToolCall[] = [];
  let firstCall = 0;
  for (let asked = request; ;) {
    const round = await ask(engine, asked, work, firstCall);
    rounds.push(round);
    messages.push(round.message);
    calls = round.message.toolCalls ?? [];
    firstCall += calls.length;
    const mayBeCut = round.finish.finishReason === 'length';
    if (calls.length === 0 || mayBeCut || rounds.length > maxToolRounds) break;
    const results = await runTools(tools, calls, work.signal);
    work.signal.throwIfAborted();
    if (!results) break;
    messages.push(...results);
    calls = [];
    // The required call has been made, so other tools may follow.
    const toolChoice = asked.toolChoice === 'required' ? 'auto' : asked.toolChoice;
    asked = { ...asked, ...allTools, toolChoice, messages: withTurns(asked.messages, [round.message, ...results]) };
  }
  const last = rounds.at(-1)!;
  const { content, object } = await readObject(schema, calls, last);
  const sum = <Key extends string>(all: Record<Key, number>[], keys: readonly Key[]) =>
    Object.fromEntries(keys.map((key) => [key, all.reduce((total, one) => total + one[key], 0)])) as Record<Key, number>;
  const usages = rounds.map(({ finish }) => finish.usage);
  const thoughts = usages.flatMap(({ reasoningTokens }) => (reasoningTokens === undefined ? [] : [{ reasoningTokens }]));
  const drafts = usages.flatMap(({ draftedTokens, acceptedTokens = 0 }) =>
    draftedTokens === undefined ? [] : [{ draftedTokens, acceptedTokens }],
  );
  return {
    content:
      rounds.length === 1
        ? content
        : rounds
            .map(({ message }) => message.content)
            .filter((text) => text !== '')
            .join('\n\n'),
    reasoning: rounds
      .map(({ message }) => message.reasoning ?? '')
      .filter((text) => text !== '')
      .join('\n\n'),
    toolCalls: [...calls],
    object,
    finishReason: last.finish.finishReason,
    messages,
    usage: {
      ...sum(usages, ['promptTokens', 'cachedTokens', 'completionTokens']),
      ...(thoughts.length > 0 ? sum(thoughts, ['reasoningTokens']) : {}),
      ...(drafts.length > 0 ? sum(drafts, ['draftedTokens', 'acceptedTokens']) : {}),
    },
    timings: sum(
      rounds.map(({ finish }) => finish.timings),
      ['queueMs', 'promptMs', 'generateMs'],
    ),
    seed: rounds[0]!.finish.seed,
    warnings: rounds.flatMap(({ finish }) => finish.warnings),
    ...(request.tells?.logprobs === undefined ? {} : { logprobs: rounds.flatMap(({ tokens }) => logprobsOf(tokens)) }),
  };
}

async function ask(engine: Engine, request: ChatRequest, work: ReplyWork, firstCall: number): Promise<Round> {
  const whole = new WholeAnswer();
  const answer = engine.chat(request, work.signal);
  await work.read(answer, (delta) => {
    whole.add(delta);
    const { tokens: _, ...shown } = delta;
    return withIds(shown, whole, firstCall);
  });
  const finish = await answer.finished;
  const { content, reasoning, toolCalls, tokens } = whole;
  return {
    finish,
    tokens,
    message: {
      role: 'assistant',
      content,
      ...(reasoning === '' ? {} : { reasoning }),
      ...(toolCalls.length === 0
        ? {}
        : { toolCalls: toolCalls.map((call) => ({ id: call.id, name: call.name, arguments: readArguments(call.arguments) })) }),
    },
  };
}

/** Numbers calls across all rounds and gives them the ids that the result has. */
function withIds(delta: Delta, whole: WholeAnswer, firstCall: number): ReplyDelta {
  if (!delta.toolCalls) return delta;
  return {
    ...delta,
    toolCalls: delta.toolCalls.map((call) => ({
      ...call, index: call.index + firstCall, ...(call.name === undefined ? {} : { id: whole.idOf(call.index) }),
    })),
  };
}

/** Appends turns to a conversation, given as the JSON of a non-empty array. */
function withTurns(conversation: string, messages: Message[]): string {
  return `${conversation.slice(0, -1)},${JSON.stringify(readMessages(messages)).slice(1)}`;
}

/** Parses the last round's answer. A round that calls tools has none. */
async function readObject(
  schema: Schema | undefined,
  calls: readonly ToolCall[],
  { message: { content }, finish }: Round,
): Promise<{ content: string; object: unknown }> {
  if (schema === undefined || calls.length > 0) return { content, object: undefined };
  return { content, object: await parseAnswer(schema, content, finish) };
}

/**
 * Parses the answer's text by the schema.
 * @throws RecuaError `answer_incomplete` if the text ends inside its JSON, `answer_invalid` if the
 *   schema's library rejects it.
 */
export async function parseAnswer(schema: Schema, content: string, finish: Finish): Promise<unknown> {
  let value: unknown;
  try {
    value = JSON.parse(content);
    // The first digits of a number look like a whole one.
    if (typeof value === 'number' && (finish.finishReason === 'length' || /^[-+.\deE]/.test(finish.stop ?? ''))) throw new Error('The number may be cut off.');
  } catch (cause) {
    const { completionTokens } = finish.usage;
    const why = finish.finishReason === 'length'
      ? `Expected a whole JSON value, got one that was cut off after ${completionTokens} tokens; raise maxTokens or the context size, or bound the schema's texts and arrays.`
      : 'Expected a whole JSON value, got an answer that ends inside it; check the stop texts.';
    throw new RecuaError('answer_incomplete', why, { cause, details: { content } });
  }
  return await checkBySchema(schema, value);
}
