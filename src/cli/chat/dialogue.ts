// A running chat: reads a message, gets the answer, saves the turn, and repeats. If a message
// fails, the chat goes on and the user keeps the message. The commands of in-chat-commands.ts work
// on it.
import { statSync } from 'node:fs';
import type { ChatRequest, Constraint } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import type { TemplateName } from '../../models/chat-templates.js';
import type { Answerer } from '../answering/answerer.js';
import { makeRequest } from '../flags/answer-flags.js';
import type { AnswerSettings } from '../flags/answer-flags.js';
import { stopCode } from '../terminal/signals.js';
import { speedLine } from '../single-turn.js';
import { AnswerWriter, turnRule } from './answer-writer.js';
import type { AnswerLook } from './answer-writer.js';
import type { ChatModels } from './chat-models.js';
import { isRefusal, tooLongText } from './failures.js';
import { SavedConversation } from './sessions/conversation.js';
import type { SavedReply } from './sessions/conversation.js';
import { runCommand } from './in-chat-commands.js';
import type { Input } from './input/input.js';
import type { Session } from './sessions/session.js';
import { loadSession } from './sessions/session-store.js';
import type { SessionKeeper } from './sessions/session-keeper.js';
import { Statistics } from './sessions/statistics.js';

/** For a larger KV state, evaluating again is faster than reading it from disk. */
const largestKvBytes = 2 * 1024 ** 3;
/** The chat waits for a count, so a model that is stuck must not keep it. */
const countMs = 2_000;

export interface DialogueParts {
  models: ChatModels;
  conversation: SavedConversation;
  settings: AnswerSettings;
  template: TemplateName;
  constraint: Constraint;
  keeper: SessionKeeper;
  look: AnswerLook;
  createdAt: string;
  others: Session['others'];
}

/** The outcome of a message. */
type Outcome = 'answered' | 'refused' | 'nothing';

export class Dialogue {
  readonly models: ChatModels;
  readonly keeper: SessionKeeper;
  readonly statistics: Statistics;
  readonly input: Input;
  readonly look: AnswerLook;
  conversation: SavedConversation;
  settings: AnswerSettings;
  template: TemplateName;
  /** The current constraint on answers; `firstConstraint` is that of the command line. */
  constraint: Constraint;
  readonly firstConstraint: Constraint;
  /** Print the speed after each answer. */
  verbose = false;
  /** Let the model think, if it can. */
  thinks = true;
  /** Initial text of the next message, to be edited. */
  draft = '';
  /** The next message replaces the last exchange. */
  replacing = false;
  #createdAt: string;
  #others: Session['others'];
  #code: number | undefined;
  #retries = 0;
  /** The KV cache has changes that are not on disk yet. */
  #unsavedKv = false;

  constructor(parts: DialogueParts, input: Input) {
    this.constraint = this.firstConstraint = parts.constraint;
    this.models = parts.models;
    this.keeper = parts.keeper;
    this.look = parts.look;
    this.input = input;
    this.conversation = parts.conversation;
    this.settings = parts.settings;
    this.template = parts.template;
    this.#createdAt = parts.createdAt;
    this.#others = parts.others;
    this.statistics = new Statistics(parts.models.current);
    input.onClear = () => {
      if (this.replacing) input.say('The old message stays.');
      this.replacing = false;
    };
  }

  get modelName(): string {
    return this.#answerer.name;
  }

  get #answerer(): Answerer {
    return this.models.current;
  }

  /** Runs until the user leaves; returns the exit code. */
  async run(): Promise<number> {
    while (this.#code === undefined) {
      const entry = await this.input.read(this.draft);
      this.draft = '';
      if (entry.kind === 'leave') {
        this.#code = entry.code;
        break;
      }
      try {
        const { text, fenced } = entry;
        if (!fenced && (text === 'exit' || text === 'quit')) this.quit();
        else if (fenced || !text.startsWith('/')) await this.send(text);
        else if (text.startsWith('//')) await this.send(text.slice(1));
        else {
          this.replacing = false;
          await runCommand(this, text);
        }
      } catch (thrown) {
        this.complain(thrown);
      }
    }
    await this.#leave();
    return this.#code;
  }

  quit(): void {
    this.#code = 0;
  }

  complain(thrown: unknown): void {
    this.input.say(`recua: ${RecuaError.from(thrown).message}`);
  }

  session(): Session {
    const { system, exchanges } = this.conversation;
    return {
      model: this.modelName, system, template: this.template, settings: this.settings,
      createdAt: this.#createdAt, updatedAt: new Date().toISOString(), exchanges, ...(this.#others ? { others: this.#others } : {}),
    };
  }

  /**
   * Sends a message. If no answer comes, the message is back at the prompt, and Enter sends it
   * again. A refused message would only be refused again: the prompt stays empty for a command that
   * helps, such as /clear, and the message is in the history.
   */
  async send(message: string): Promise<void> {
    const replaced = this.replacing ? this.conversation.undo() : undefined;
    this.replacing = false;
    this.#retries = 0;
    this.conversation.ask(message, new Date().toISOString());
    // Saved before the answer, so that the message survives the end of this process.
    await this.save();
    const outcome = await this.#answer(this.settings);
    if (outcome === 'answered') return;
    this.conversation.undo();
    if (replaced) this.conversation.redo(replaced);
    // The file still has the message. It must not come back as an unanswered one, nor replace the
    // old message.
    if (replaced || outcome === 'refused') await this.save();
    if (outcome === 'refused') {
      if (replaced) this.input.say('The old message stays.');
      if (this.input.recalls !== '') this.input.say(this.input.recalls);
      return;
    }
    this.replacing = replaced !== undefined;
    this.draft = message;
  }

  /** Sends the last message again. If no answer comes, the old answer stays. */
  async retry(): Promise<void> {
    const { last } = this.conversation;
    if (!last) return this.input.say('There is nothing to ask again yet.');
    const before = this.conversation.unanswer();
    this.#retries++;
    // The same seed would give the same answer.
    const { seed } = this.settings;
    const settings = { ...this.settings, seed: seed === 0 ? 0 : (seed + this.#retries) % 2 ** 32 };
    if (await this.#answer(settings) === 'answered' || !before) return;
    this.conversation.reply(before);
    this.input.say('The answer before stays.');
  }

  async save(): Promise<void> {
    const { isSaved } = this.keeper;
    try {
      await this.keeper.save(this.session());
    } catch (thrown) {
      // The reason once; #leave reminds of it.
      if (isSaved) this.complain(thrown);
    }
  }

  /** Continues another saved chat; this one is already saved. Resolves to the model it used. */
  async open(path: string): Promise<string> {
    // Read once to validate it, and again under the lock, when nobody else can change it.
    await loadSession(path);
    await this.saveKv();
    const session = await this.keeper.open(path);
    this.conversation = new SavedConversation(session.system, session.exchanges);
    this.settings = session.settings;
    this.template = session.template;
    this.#createdAt = session.createdAt;
    this.#others = session.others;
    this.statistics.reset();
    this.#unsavedKv = false;
    await this.restoreKv();
    this.offerUnanswered();
    return session.model;
  }

  /** Starts a new conversation with an empty KV cache. The old one stays saved. */
  async clear(): Promise<void> {
    await this.saveKv();
    await this.#answerer.forget();
    await this.keeper.begin();
    this.conversation = new SavedConversation(this.conversation.system);
    this.#createdAt = new Date().toISOString();
    this.#others = undefined;
    this.statistics.reset();
    this.#unsavedKv = false;
  }

  /**
   * Makes another model answer from the next message on, with the whole conversation. If it does
   * not load, throws the reason, and the old model keeps answering.
   */
  async switchModel(name: string): Promise<void> {
    await this.saveKv();
    const next = await this.#withInterrupt((signal) => this.models.switchTo(name, this.template !== 'auto', signal));
    if (next) this.#meet(next);
    if (next && this.conversation.exchanges.length > 0) await this.save();
  }

  /** Puts back the message of a chat that ended while it waited for an answer. */
  offerUnanswered(): void {
    const { last } = this.conversation;
    if (!last || last.reply) return;
    this.conversation.undo();
    this.draft = last.message;
    this.input.say('The last message has no answer; here it is again.');
  }

  /**
   * Saves the KV cache next to the saved chat. A failure costs time later but no data, so it is
   * only reported.
   */
  async saveKv(): Promise<void> {
    const { kvPath, automatic } = this.keeper;
    const { kv } = this.#answerer;
    if (!automatic || kvPath === undefined || !this.#unsavedKv || !kv) return;
    const bytes = (this.statistics.used ?? 0) * (kv.bytesPerToken ?? 0);
    if (bytes > largestKvBytes) {
      return this.input.say(`The KV cache of this chat is not saved, because it takes ${(bytes / 1024 ** 3).toFixed(1)} GiB; the model will read the chat again when you resume it.`);
    }
    try {
      if (await kv.save(kvPath)) this.#unsavedKv = false;
    } catch (thrown) {
      this.complain(thrown);
    }
  }

  /** Call when the chat got another file, which has no saved KV cache yet. */
  keepKv(): void {
    this.#unsavedKv = this.statistics.used !== undefined;
  }

  /** Reads what `saveKv` wrote, if it exists and fits. If not, /stats says why. */
  async restoreKv(): Promise<void> {
    const { kvPath } = this.keeper;
    const { kv } = this.#answerer;
    if (!kv || kvPath === undefined) return;
    const found = statSync(kvPath, { throwIfNoEntry: false });
    if (!found?.isFile()) return;
    try {
      this.statistics.restored = await kv.restore(kvPath);
    } catch (thrown) {
      this.statistics.restored = { tokens: 0, sizeBytes: found.size, reason: RecuaError.from(thrown).message };
    }
  }

  /** Gets the answer to the last message. If none comes, tells the user why. */
  async #answer(settings: AnswerSettings): Promise<Outcome> {
    if (!await this.#ensureAnswerer()) return 'nothing';
    const controller = new AbortController();
    this.input.onInterrupt = () => controller.abort();
    const writer = new AnswerWriter((text) => this.input.write(text), this.look);
    this.input.onSay = () => writer.giveWay();
    const request = makeRequest(this.conversation.messages(), settings, this.constraint, this.template, this.thinks);
    const running = this.#answerer.chat(request, controller.signal);
    const so = { text: '', reasoning: '' };
    let reply: SavedReply | undefined;
    let thrown: unknown;
    let full = false;
    try {
      for await (const delta of running) {
        so.text += delta.content ?? '';
        so.reasoning += delta.reasoning ?? '';
        writer.push(delta);
      }
      const finish = await running.finished;
      writer.end();
      for (const warning of finish.warnings) this.input.say(`recua: ${warning}`);
      if (this.verbose) this.input.say(speedLine(finish));
      const { usage, timings, seed, finishReason: ended } = finish;
      reply = { ...so, ended, usage, timings, seed };
      this.statistics.add({ ...usage, timings, seed, ended });
      full = ended === 'length' && usage.completionTokens < settings.maxTokens;
      if (full) this.input.say('recua: the answer was cut off because the context is full. /undo removes the last exchange, /clear starts over.');
      else if (ended === 'length') this.input.say(`recua: the answer was cut off after ${usage.completionTokens} tokens (--max-tokens).`);
    } catch (error) {
      writer.end();
      thrown = error;
    } finally {
      this.input.onInterrupt = this.input.onSay = () => undefined;
    }
    if (thrown !== undefined) reply = await this.#broken(thrown, request, so, controller.signal.aborted);
    if (!reply) return isRefusal(thrown) ? 'refused' : 'nothing';
    this.#unsavedKv = true;
    this.conversation.reply(reply);
    await this.save();
    const warning = this.statistics.warning();
    if (warning !== undefined && !full) this.input.say(warning);
    this.input.write(turnRule(this.look));
    return 'answered';
  }

  /** Handles an incomplete answer: keeps the part that came. */
  async #broken(thrown: unknown, request: ChatRequest, so: { text: string; reasoning: string }, stopped: boolean) {
    const error = RecuaError.from(thrown);
    if (error.code === 'context_length_exceeded') this.input.say(tooLongText(error));
    else if (!stopped) this.complain(error);
    if (!stopped) await this.#recover(error);
    if (so.text === '') {
      if (stopped) this.input.say('Stopped before the answer began; your message is back.');
      return undefined;
    }
    const ended: SavedReply['ended'] = stopped ? 'stopped' : 'failed';
    const counted = await this.#answerer.count(request, so.text, AbortSignal.timeout(countMs));
    if (counted) this.statistics.add({ ...counted, ended });
    else this.statistics.addUncounted();
    this.input.say(stopped ? '(stopped; /retry asks again)' : 'The part before the error is kept; /retry asks again.');
    return { ...so, ended };
  }

  /** Whether the model can answer; if not, tells the user why. */
  async #ensureAnswerer(): Promise<boolean> {
    try {
      await this.#withInterrupt(async (signal) => {
        const next = await this.models.ensure(this.template !== 'auto', signal);
        if (!next) return;
        this.#meet(next);
        if (next.url !== undefined) this.input.say(`The running server ${next.url} answers now.`);
      });
      return true;
    } catch (thrown) {
      this.complain(thrown);
      return false;
    }
  }

  /** A new answerer took over, with an empty KV cache. */
  #meet(next: Answerer): void {
    this.statistics.model = next;
    this.statistics.reset();
    this.#unsavedKv = false;
  }

  async #recover(error: RecuaError): Promise<void> {
    try {
      const outcome = await this.#withInterrupt((signal) => this.#answerer.recover(error, signal));
      if (outcome === 'back') this.input.say('The model is back.');
      if (outcome !== 'gone') return;
      this.models.lose();
      this.input.say('The next message looks for the model again, and loads it here if no other server has it.');
    } catch (thrown) {
      if (RecuaError.from(thrown).code !== 'cancelled') this.complain(thrown);
    }
  }

  async #withInterrupt<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    this.input.onInterrupt = () => controller.abort();
    try {
      return await work(controller.signal);
    } finally {
      this.input.onInterrupt = () => undefined;
    }
  }

  async #leave(): Promise<void> {
    this.input.onInterrupt = () => process.exit(stopCode());
    await this.saveKv();
    const { name, automatic, isSaved } = this.keeper;
    if (!isSaved) this.input.say('The last turns are not saved.');
    else if (automatic && name !== undefined && this.conversation.exchanges.length > 0) {
      this.input.say(`Saved as ${name}. Continue: recua chat --resume ${/[ ]/.test(name) ? `"${name}"` : name}`);
    }
  }
}
