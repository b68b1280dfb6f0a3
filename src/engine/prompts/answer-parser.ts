// Answer text → deltas (content, reasoning, tool calls). The parser of a chat is llama.cpp's, in
// the addon. Made by engine/prompts/chat, called by the engine's loop.
import type { NativeParser } from '../../addon/addon.js';
import { merge } from '../merge.js';
import type { Delta, FinishReason } from '../protocol.js';

/** Parses the whole text so far into deltas; `now`: without a pause after a long parse. */
export interface AnswerParser {
  push(whole: string, now?: boolean): Delta | undefined;
  /** `cut`: a limit or a stop string ended the text, maybe in the middle of something. */
  end(whole: string, reason: FinishReason, cut: boolean): { delta: Delta | undefined; finishReason: FinishReason; warnings: string[] };
  /** The reasoning in the text so far. */
  readonly reasoning: string;
  /** For an answer without an end. Idempotent; nothing may be pushed after it. */
  close(): void;
}

/** Whether an answer may or must have tool calls. */
export type Calls = 'none' | 'perhaps' | 'required';

/** A completion's text is its content. */
export class PlainParser implements AnswerParser {
  readonly reasoning = '';
  #given = 0;

  push(whole: string): Delta | undefined {
    if (whole.length === this.#given) return undefined;
    const content = whole.slice(this.#given);
    this.#given = whole.length;
    return { content };
  }

  end(whole: string, finishReason: FinishReason) {
    return { delta: this.push(whole), finishReason, warnings: [] };
  }

  close(): void {}
}

/**
 * A parse reads the whole text. The next one waits for this many times its duration, so that the
 * total time stays linear for long answers.
 */
const parsePause = 20;

/**
 * llama.cpp's parser. It parses every answer: templates may wrap even plain content. Text that it
 * cannot parse becomes content.
 */
export class ChatParser implements AnswerParser {
  readonly #parser: NativeParser;
  readonly #calls: Calls;
  /** Deltas from the first call on, if the template puts no mark before calls; else undefined. */
  readonly #held: Delta[] | undefined;
  #nextAtMs = 0;
  #parsed = 0;
  #content = '';
  #reasoning = '';
  #callsGiven = false;

  /** `marked`: a call cannot be mistaken for other text, so it is given as it grows. */
  constructor(parser: NativeParser, calls: Calls, marked = true) {
    this.#parser = parser;
    this.#calls = calls;
    this.#held = marked ? undefined : [];
  }

  get reasoning(): string {
    return this.#reasoning;
  }

  push(whole: string, now = false): Delta | undefined {
    const startMs = performance.now();
    if (whole.length === this.#parsed || (!now && startMs < this.#nextAtMs)) return undefined;
    this.#parsed = whole.length;
    try {
      return this.#give(this.#withoutHeld(this.#parser.parse(whole, true)));
    } catch {
      // More text may fix it; the end decides.
      return undefined;
    } finally {
      const nowMs = performance.now();
      this.#nextAtMs = nowMs + parsePause * (nowMs - startMs);
    }
  }

  end(text: string, reason: FinishReason, cut: boolean) {
    try {
      const last = this.#parser.parse(text, false);
      const isBroken = this.#parser.message().toolCalls.some((call) => !isJson(call.arguments));
      if (this.#held && isBroken) throw new Error('a tool call is incomplete');
      const delta = this.#give(joined([...this.#held ?? [], last]));
      const calls = this.#parser.message().toolCalls.length > 0;
      // A limit may have ended a mark.
      const held = reason === 'stop' && !calls && this.#calls !== 'required' ? this.#heldBack(text) : undefined;
      if (held) return { delta: { content: (delta?.content ?? '') + held.content, reasoning: (delta?.reasoning ?? '') + held.reasoning }, finishReason: reason, warnings: [] };
      // Without a limit, only a continued answer ends there: the call's mark is in its beginning.
      const isLost = cut || (this.#reasoning === '' && this.#content === '');
      const begun = this.#calls !== 'none' && !calls && isLost ? this.#rest(text)?.content : undefined;
      // Marks alone are not worth sending.
      if (begun && begun.replace(/^(\s*[<[][^>\]]*[>\]]?)+/, '').trim() !== '') {
        const how = cut ? 'was cut off' : 'ended';
        const warnings = [`The answer ${how} within a tool call; the part that exists is given as plain content.`];
        return { delta: this.#give({ ...delta, content: (delta?.content ?? '') + begun }), finishReason: reason, warnings };
      }
      if (cut && isBroken && reason === 'stop') return { delta, finishReason: reason, warnings: ['A stop string cut the answer off within a tool call.'] };
      const warnings = this.#calls === 'required' && !calls ? ['A tool call was required, but the answer ended without one.'] : [];
      return { delta, finishReason: calls && reason === 'stop' ? ('tool_calls' as const) : reason, warnings };
    } catch (error) {
      const cause = (error as Error).message.split('\n')[0];
      const rest = this.#callsGiven ? 'the last tool call may be incomplete' : 'the text after the last valid part is given as plain content';
      const warnings = [`The answer could not be parsed (${cause}); ${rest}.`];
      return { delta: this.#rest(text), finishReason: reason, warnings };
    } finally {
      this.close();
    }
  }

  /** Frees native memory now: V8 sees only a small object, and would keep it until a full GC. */
  close(): void {
    this.#parser.close();
  }

  /** The text not sent yet of an answer that does not parse: no text may be lost. */
  #rest(whole: string): Delta | undefined {
    if (this.#callsGiven) {
      // The stream has begun a call, whose arguments are this text. Flush what the parser still
      // has.
      try {
        return this.#give(this.#parser.parse(whole, true));
      } catch {
        return undefined;
      }
    }
    let from = 0;
    for (const given of [this.#reasoning, this.#content]) {
      const at = whole.indexOf(given, from);
      if (at >= 0) from = at + given.length;
      else if (from === 0) from = lengthBehindPrompt(whole, given);
    }
    return from < whole.length ? { content: whole.slice(from) } : undefined;
  }

  /**
   * The text at the end that was not given because a mark may begin with it, such as "<": what
   * comes out if the answer goes on with a character that no mark contains.
   */
  #heldBack(whole: string): { content: string; reasoning: string } | undefined {
    try {
      const { content = '', reasoning = '' } = this.#parser.parse(whole + inNoMark, false);
      const held = { content: content.replace(inNoMark, ''), reasoning: reasoning.replace(inNoMark, '') };
      // Blanks at the end are not worth sending.
      return `${held.content}${held.reasoning}`.trim() === '' ? undefined : held;
    } catch {
      return undefined; // the answer cannot go on
    }
  }

  /** Only the end shows whether text without a mark is a call. */
  #withoutHeld(delta: Delta): Delta {
    if (!this.#held || (this.#held.length === 0 && !delta.toolCalls?.length)) return delta;
    const { content, reasoning, ...calls } = delta;
    if (this.#held.length > 0) {
      this.#held.push(delta);
      return {};
    }
    this.#held.push(calls);
    return { ...(content === undefined ? {} : { content }), ...(reasoning === undefined ? {} : { reasoning }) };
  }

  #give(delta: Delta): Delta | undefined {
    if (delta.content) this.#content += delta.content;
    if (delta.reasoning) this.#reasoning += delta.reasoning;
    if (delta.toolCalls?.length) this.#callsGiven = true;
    return delta.content || delta.reasoning || delta.toolCalls?.length ? delta : undefined;
  }
}

/** All as one, with one entry for each call: a client may take each entry as a call of its own. */
const joined = (deltas: readonly Delta[]): Delta => deltas.reduce(merge, {});

/** A character that is no text: Unicode reserves it for a program's own use. */
const inNoMark = '\uffff';

/** Characters of a prompt that a template may put into the thoughts, with which they begin. */
const mostPutIntoThoughts = 200;

/** How much of an answer was given, if what was given begins with text of the prompt. */
function lengthBehindPrompt(whole: string, given: string): number {
  for (let skipped = 1; skipped <= mostPutIntoThoughts && skipped < given.length; skipped++) {
    if (whole.startsWith(given.slice(skipped))) return given.length - skipped;
  }
  return 0;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
