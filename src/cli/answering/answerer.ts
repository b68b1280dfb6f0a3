// The interface to whatever answers a command's prompts: an engine of this process (own-engine.ts),
// or a running server that already has the model loaded (served-model.ts). It has only what
// `recua run` and `chat` need.
import type { Answer } from '../../engine/api.js';
import type { ChatRequest, SavedState, Usage } from '../../engine/protocol.js';
import type { RecuaError } from '../../errors.js';

/** Saves the KV cache to files next to saved chats, and restores it. */
export interface KvFiles {
  /** Size of the KV cache per token; undefined if unknown. */
  readonly bytesPerToken: number | undefined;
  /** Resolves to undefined, and writes nothing, if no model is loaded at the moment. */
  save(path: string): Promise<SavedState | undefined>;
  restore(path: string): Promise<SavedState>;
}

/** The answerer's state after an error. */
export type Recovery = 'unharmed' | 'back' | 'gone';

export type TokenCounts = Pick<Usage, 'promptTokens' | 'completionTokens'>;

export interface Answerer {
  /** The model's name in a session: as the user gave it, or the absolute path of a file. */
  readonly name: string;
  /** The name that users and clients see. */
  readonly id: string;
  /** One line, e.g. "llama 135M Q8_0". */
  readonly description: string;
  /** Tokens that a conversation can hold. */
  readonly contextSize: number;
  /** Where it computes, as a sentence without its period; undefined for CPU only. */
  readonly place: string | undefined;
  /**
   * The running server that answers; undefined for an engine of this process. A server knows one
   * chat template, the model's own.
   */
  readonly url: string | undefined;
  /** The API key, if the server requires one. */
  readonly key?: string | undefined;
  readonly certificate?: string | undefined;
  /** Undefined for a server, which keeps its KV cache itself. */
  readonly kv: KvFiles | undefined;
  /** The same as `Engine.chat`. */
  chat(request: ChatRequest, signal: AbortSignal): Answer;
  /** Tokens of an answer that broke off here; undefined if they cannot be counted. */
  count(request: ChatRequest, text: string, signal: AbortSignal): Promise<TokenCounts | undefined>;
  /** Drops the KV cache, if it belongs to this command alone. */
  forget(): Promise<void>;
  /**
   * After an error that ended an answer: waits until requests work again. `gone` is permanent.
   * Throws `cancelled`, or the reason why the model does not come back.
   */
  recover(error: RecuaError, signal: AbortSignal): Promise<Recovery>;
  /** Idempotent. */
  close(): Promise<void>;
}
