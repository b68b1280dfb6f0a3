// The file format of a saved chat: versioned JSON with snake_case keys. Reading validates every
// field, because users edit such files. Used by session-store.ts and the sessions command.
import type { FinishReason } from '../../../engine/protocol.js';
import { RecuaError } from '../../../errors.js';
import { templateNames } from '../../../models/chat-templates.js';
import type { TemplateName } from '../../../models/chat-templates.js';
import type { AnswerSettings, MoreSettings } from '../../flags/answer-flags.js';
import { moreParameters } from '../parameters.js';
import { samplerSettings } from '../../../settings/answer.js';
import { maxCount } from '../../../settings/kinds.js';
import type { Exchange, Others, SavedReply } from './conversation.js';
import { refuseHalves } from '../../../request/half-characters.js';
import { toJson } from '../../terminal/output.js';

export interface Session {
  /** The name from the command line; paths are absolute, so that they work in any folder. */
  model: string;
  system: string;
  template: TemplateName;
  settings: AnswerSettings;
  /** ISO times. */
  createdAt: string;
  updatedAt: string;
  exchanges: readonly Exchange[];
  /** Fields of the file that are not ours, also those inside its objects. */
  others?: Others;
}

const version = 1;

/** The model of a chat that was saved without one; it continues with any. */
export const anyModel = 'default';

/** The fields of the objects in a file; a newer version may write more. */
const samplingFields = ['max_tokens', 'temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty', 'seed', 'stop', ...moreParameters.map(({ name }) => name)];
const usageFields = ['prompt_tokens', 'cached_tokens', 'completion_tokens'];
const timingsFields = ['queue_ms', 'prompt_ms', 'generate_ms'];

export function writeSession(session: Session): string {
  return toJson(documentOf(session));
}

/** What the file holds. */
export function documentOf(session: Session): Record<string, unknown> {
  const { settings } = session;
  return {
    ...session.others,
    recua_session: version,
    model: session.model,
    created_at: session.createdAt,
    updated_at: session.updatedAt,
    system: session.system,
    template: session.template,
    sampling: {
      ...inside(session.others, 'sampling'),
      max_tokens: settings.maxTokens, temperature: settings.temperature, top_p: settings.topP, top_k: settings.topK,
      min_p: settings.minP, repeat_penalty: settings.repeatPenalty, seed: settings.seed,
      ...writeMore(settings.more ?? {}),
      ...(settings.stop ? { stop: settings.stop } : {}),
    },
    messages: session.exchanges.flatMap(({ message, sentAt, reply, others }) => [
      { ...others, role: 'user', content: message, sent_at: sentAt, ...(reply ? {} : { unanswered: true }) },
      ...(reply ? [replyObject(reply)] : []),
    ]),
  };
}

function replyObject({ text, reasoning, ended, usage, timings, seed, others }: SavedReply): Record<string, unknown> {
  return {
    ...others,
    role: 'assistant',
    content: text,
    ...(reasoning === '' ? {} : { reasoning }),
    ended,
    ...(usage ? { usage: { ...inside(others, 'usage'), prompt_tokens: usage.promptTokens, cached_tokens: usage.cachedTokens, completion_tokens: usage.completionTokens } } : {}),
    ...(timings ? { timings: { ...inside(others, 'timings'), queue_ms: timings.queueMs, prompt_ms: timings.promptMs, generate_ms: timings.generateMs } } : {}),
    ...(seed === undefined ? {} : { seed }),
  };
}

function inside(others: Others | undefined, name: string): object {
  return others?.[name] ?? {};
}

/** A newer Recua wrote the chat. */
export class NewerFormat extends RecuaError {}

const invalidIn = (path: string): Invalid => (what) => new RecuaError('invalid_session', `${path} is not a valid saved chat: ${what}. The file is left unchanged.`);

/** Throws `invalid_session`, which names the file and the place in it. */
export function readSession(text: string, path: string): Session {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalidIn(path)(`it is not valid JSON (${(cause as Error).message})`);
  }
  try {
    refuseHalves(text, value);
  } catch (cause) {
    throw invalidIn(path)((cause as Error).message.replace(/\.$/, ''));
  }
  return readDocument(value, path);
}

/** As readSession, of JSON that is parsed already. */
export function readDocument(value: unknown, path: string): Session {
  const invalid = invalidIn(path);
  const file = new SessionFields(value, 'the file', invalid);
  const found = file.number('recua_session');
  if (found > version) throw new NewerFormat('invalid_session', `${path} was saved by a newer Recua: it has version ${found} of the format, and this Recua reads version ${version}. The file is left unchanged.`);
  if (found !== version) throw invalid(`it has version ${found} of the format, and this Recua reads version ${version}`);
  const sampling = file.object('sampling');
  const template = file.text('template');
  const known = templateNames.find((name) => name === template);
  if (known === undefined) throw invalid(`it names the template ${JSON.stringify(template)}, but there are only ${templateNames.join(', ')}`);
  return {
    model: file.text('model'),
    system: file.text('system'),
    template: known,
    settings: {
      maxTokens: sampling.whole('max_tokens', 1, maxCount), temperature: sampling.number('temperature', 0, 100), topP: sampling.number('top_p', 0, 1),
      topK: sampling.whole('top_k', samplerSettings.topK.min, maxCount), minP: sampling.number('min_p', 0, 1), repeatPenalty: sampling.number('repeat_penalty', 0.01, 100),
      seed: sampling.whole('seed', 0, 2 ** 32 - 1), ...readMore(sampling),
    },
    createdAt: file.text('created_at'),
    updatedAt: file.text('updated_at'),
    exchanges: readExchanges(file.list('messages'), invalid),
    ...file.others(['recua_session', 'model', 'created_at', 'updated_at', 'system', 'template', 'messages'], { sampling: samplingFields }),
  };
}

function writeMore(more: MoreSettings): Record<string, number> {
  const set = moreParameters.map(({ name, key }) => [name, more[key as keyof MoreSettings]]);
  return Object.fromEntries(set.filter(([, value]) => value !== undefined)) as Record<string, number>;
}

/** Settings that only some chats have. */
function readMore(sampling: SessionFields): Pick<AnswerSettings, 'more' | 'stop'> {
  const more = moreParameters
    .filter(({ name }) => sampling.has(name))
    .map(({ name, key, min, max, whole }) => [key, whole ? sampling.whole(name, min, max) : sampling.number(name, min, max)]);
  return {
    ...(more.length === 0 ? {} : { more: Object.fromEntries(more) as MoreSettings }),
    ...(sampling.has('stop') ? { stop: sampling.texts('stop') } : {}),
  };
}

type Invalid = (what: string) => RecuaError;

/** Messages alternate and begin with the user's; only the last may lack an answer. */
function readExchanges(messages: readonly unknown[], invalid: Invalid): Exchange[] {
  const exchanges: Exchange[] = [];
  for (const [index, value] of messages.entries()) {
    const message = new SessionFields(value, `message ${index + 1}`, invalid);
    const expected = index % 2 === 0 ? 'user' : 'assistant';
    const role = message.text('role');
    if (role !== expected) throw invalid(`message ${index + 1} has the role ${role}, but ${expected} was expected`);
    if (role === 'user') exchanges.push({ message: message.text('content'), sentAt: message.text('sent_at'), ...message.others(['role', 'content', 'sent_at', 'unanswered']) });
    else exchanges.at(-1)!.reply = readReply(message);
  }
  return exchanges;
}

function readReply(message: SessionFields): SavedReply {
  const reply: SavedReply = { text: message.text('content'), reasoning: message.text('reasoning', ''), ended: message.text('ended') as FinishReason, ...message.others(['role', 'content', 'reasoning', 'ended', 'seed'], { usage: usageFields, timings: timingsFields }) };
  if (message.has('usage')) {
    const usage = message.object('usage');
    reply.usage = { promptTokens: usage.number('prompt_tokens'), cachedTokens: usage.number('cached_tokens'), completionTokens: usage.number('completion_tokens') };
  }
  if (message.has('timings')) {
    const timings = message.object('timings');
    reply.timings = { queueMs: timings.number('queue_ms'), promptMs: timings.number('prompt_ms'), generateMs: timings.number('generate_ms') };
  }
  if (message.has('seed')) reply.seed = message.number('seed');
  return reply;
}

/** An object of the file, whose fields are validated when read. */
class SessionFields {
  readonly #value: Record<string, unknown>;
  readonly #place: string;
  readonly #invalid: Invalid;

  constructor(value: unknown, place: string, invalid: Invalid) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${place} is not an object`);
    this.#value = value as Record<string, unknown>;
    this.#place = place;
    this.#invalid = invalid;
  }

  has(key: string): boolean {
    return this.#value[key] !== undefined;
  }

  text(key: string, otherwise?: string): string {
    const value = this.#value[key] ?? otherwise;
    if (typeof value !== 'string') throw this.#wrong(key, 'a text');
    return value;
  }

  number(key: string, least = 0, most = Infinity): number {
    const value = this.#value[key];
    if (typeof value !== 'number' || !(value >= least && value <= most)) {
      throw this.#wrong(key, most === Infinity ? `a number of at least ${least}` : `a number from ${least} to ${most}`);
    }
    return value;
  }

  whole(key: string, least: number, most: number): number {
    const value = this.number(key, least, most);
    if (!Number.isInteger(value)) throw this.#wrong(key, 'a whole number');
    return value;
  }

  list(key: string): readonly unknown[] {
    const value = this.#value[key];
    if (!Array.isArray(value)) throw this.#wrong(key, 'a list');
    return value;
  }

  texts(key: string): string[] {
    const value = this.list(key);
    if (!value.every((text) => typeof text === 'string' && text !== '')) throw this.#wrong(key, 'a list of texts');
    return value as string[];
  }

  /** All fields except these, and of the objects `inner` all except the ones that it names. */
  others(known: readonly string[], inner: Readonly<Record<string, readonly string[]>> = {}): { others?: Others } {
    const others = Object.entries(this.#value).filter(([key]) => !known.includes(key) && !Object.hasOwn(inner, key));
    for (const [key, names] of Object.entries(inner)) {
      const more = this.has(key) ? this.object(key).others(names).others : undefined;
      if (more) others.push([key, more]);
    }
    return others.length === 0 ? {} : { others: Object.fromEntries(others) };
  }

  object(key: string): SessionFields {
    return new SessionFields(this.#value[key], `${key} of ${this.#place}`, this.#invalid);
  }

  #wrong(key: string, expected: string): RecuaError {
    return this.#invalid(`${key} of ${this.#place} is not ${expected}`);
  }
}
