// The work of a chat reply: ask, run the tools that were called, ask again, and put the result
// together. Called by Model.
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
  /** What was said: all of it where tools were called in between. */
  content: string;
  /** What was thought before; '' for models that do not think. */
  reasoning: string;
  /**
   * Calls that are for the program to answer; empty where there were none or their tools did it.
   */
  toolCalls: ToolCall[];
  /** The answer, parsed, where a `schema` was given; else undefined. */
  object: Output;
  /**
   * `'stop'` at its end, `'length'` where it was cut off, `'tool_calls'` where it waits for tools.
   */
  finishReason: FinishReason;
  /** The turns to add to the conversation to go on with it: calls, results, answer. */
  messages: Message[];
  /** Tokens; summed up over the rounds where tools were run. */
  usage: Usage;
  /** Milliseconds; summed up likewise. */
  timings: Timings;
  /** The seed that gives the same answer again. */
  seed: number;
  /**
   * What the program should know of the answer, in sentences, e.g. that a tool call could not be
   * parsed.
   */
  warnings: string[];
  /** Of all tokens, thoughts and calls included, where the options ask for it. */
  logprobs?: AnswerLogprob[];
}

export interface Conversation {
  engine: Engine;
  request: ChatRequest;
  tools: Tools;
  maxToolRounds: number;
  schema: Schema | undefined;
}

interface Round {
  message: Extract<Message, { role: 'assistant' }>;
  finish: Finish;
  tokens: readonly ToldToken[];
}

export async function converse({ engine, request, tools, maxToolRounds, schema }: Conversation, work: ReplyWork): Promise<ChatResult<unknown>> {
  const rounds: Round[] = [];
  const messages: Message[] = [];
  let calls: readonly ToolCall[] = [];
  let firstCall = 0;
  for (let asked = request; ; ) {
    const round = await ask(engine, asked, work, firstCall);
    rounds.push(round);
    messages.push(round.message);
    calls = round.message.toolCalls ?? [];
    firstCall += calls.length;
    if (calls.length === 0 || rounds.length > maxToolRounds) break;
    const results = await runTools(tools, calls, work.signal);
    work.signal.throwIfAborted();
    if (!results) break;
    messages.push(...results);
    calls = [];
    // A call that was demanded has been made.
    const toolChoice = asked.toolChoice === 'required' ? 'auto' : asked.toolChoice;
    asked = { ...asked, toolChoice, messages: withTurns(asked.messages, [round.message, ...results]) };
  }
  const last = rounds.at(-1)!;
  const { content, object } = await readObject(schema, calls, last);
  const sum = <Key extends string>(all: Record<Key, number>[], keys: readonly Key[]) =>
    Object.fromEntries(keys.map((key) => [key, all.reduce((total, one) => total + one[key], 0)])) as Record<Key, number>;
  const usages = rounds.map(({ finish }) => finish.usage);
  const drafts = usages.flatMap(({ draftedTokens, acceptedTokens = 0 }) => (draftedTokens === undefined ? [] : [{ draftedTokens, acceptedTokens }]));
  return {
    content: rounds.length === 1 ? content : rounds.map(({ message }) => message.content).filter((text) => text !== '').join('\n\n'),
    reasoning: rounds.map(({ message }) => message.reasoning ?? '').filter((text) => text !== '').join('\n\n'),
    toolCalls: [...calls],
    object,
    finishReason: last.finish.finishReason,
    messages,
    usage: {
      ...sum(usages, ['promptTokens', 'cachedTokens', 'completionTokens']),
      ...(drafts.length > 0 ? sum(drafts, ['draftedTokens', 'acceptedTokens']) : {}),
    },
    timings: sum(rounds.map(({ finish }) => finish.timings), ['queueMs', 'promptMs', 'generateMs']),
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
      ...(toolCalls.length === 0 ? {} : { toolCalls: toolCalls.map((call) => ({ id: call.id, name: call.name, arguments: readArguments(call.arguments) })) }),
    },
  };
}

/** Calls are counted through all rounds, and have the ids that the result has. */
function withIds(delta: Delta, whole: WholeAnswer, firstCall: number): ReplyDelta {
  if (!delta.toolCalls) return delta;
  return {
    ...delta,
    toolCalls: delta.toolCalls.map((call) => ({
      ...call, index: call.index + firstCall, ...(call.name === undefined ? {} : { id: whole.idOf(call.index) }),
    })),
  };
}

/** A conversation's JSON, which is an array with something in it, with further turns at its end. */
function withTurns(conversation: string, messages: Message[]): string {
  return `${conversation.slice(0, -1)},${JSON.stringify(readMessages(messages)).slice(1)}`;
}

/** The JSON of the last round. One that calls tools has none. */
async function readObject(schema: Schema | undefined, calls: readonly ToolCall[], { message: { content }, finish }: Round): Promise<{ content: string; object: unknown }> {
  if (schema === undefined || calls.length > 0) return { content, object: undefined };
  return { content, object: await parseAnswer(schema, content, finish) };
}

/**
 * The object that an answer's text stands for.
 * @throws RecuaError `answer_incomplete` where the text ends before its JSON does, `answer_invalid`
 *   where the schema's library refuses it.
 */
export async function parseAnswer(schema: Schema, content: string, finish: Finish): Promise<unknown> {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (cause) {
    const { completionTokens } = finish.usage;
    const why = finish.finishReason === 'length'
      ? `Expected a whole JSON value, got one that was cut off after ${completionTokens} tokens; raise maxTokens or the context size, or bound the schema's texts and arrays.`
      : 'Expected a whole JSON value, got an answer that was ended inside it; look at the stop texts.';
    throw new RecuaError('answer_incomplete', why, { cause, details: { content } });
  }
  return await checkBySchema(schema, value);
}
