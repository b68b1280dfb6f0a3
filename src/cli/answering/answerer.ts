// Who answers a command's questions: an engine of this process (own-engine.ts), or a running server
// that has the model loaded already (served-model.ts). What `recua run` and `chat` need of either,
// and no more.
import type { Answer } from '../../engine/api.js';
import type { ChatRequest, SavedState, Usage } from '../../engine/protocol.js';
import type { RecuaError } from '../../errors.js';

/** What was evaluated, in files beside saved chats. */
export interface KvFiles {
  /** KV of one token; undefined where it is unknown. */
  readonly bytesPerToken: number | undefined;
  /** Resolves to undefined where no model is loaded now, and writes nothing then. */
  save(path: string): Promise<SavedState | undefined>;
  restore(path: string): Promise<SavedState>;
}

/** What became of who answers, after an error. */
export type Recovery = 'unharmed' | 'back' | 'gone';

export type TokenCounts = Pick<Usage, 'promptTokens' | 'completionTokens'>;

export interface Answerer {
  /** The model as a session names it: as it was named, a file by its absolute path. */
  readonly name: string;
  /** As people and clients know it. */
  readonly id: string;
  /** In a line, e.g. "llama 135M Q8_0". */
  readonly description: string;
  /** Tokens that a conversation can hold. */
  readonly contextSize: number;
  /** Where it computes, in a sentence without its full stop, if that is more than the CPU. */
  readonly place: string | undefined;
  /**
   * The running server that answers; undefined for an engine of this process. A server knows one
   * chat template, the model's own.
   */
  readonly url: string | undefined;
  /** For a server that asks for one. */
  readonly key?: string | undefined;
  readonly certificate?: string | undefined;
  /** Undefined where nothing is kept here: a server remembers what it evaluated. */
  readonly kv: KvFiles | undefined;
  /** As `Engine.chat`. */
  chat(request: ChatRequest, signal: AbortSignal): Answer;
  /** What an answer took that was broken off after this text; undefined where nobody can count. */
  count(request: ChatRequest, text: string): Promise<TokenCounts | undefined>;
  /** Drops what was evaluated, where that is kept for this command alone. */
  forget(): Promise<void>;
  /**
   * After an error that ended an answer: waits until questions are answered again. `gone` is for
   * good. Throws `cancelled`, and why it does not come back.
   */
  recover(error: RecuaError, signal: AbortSignal): Promise<Recovery>;
  /** Idempotent. */
  close(): Promise<void>;
}
