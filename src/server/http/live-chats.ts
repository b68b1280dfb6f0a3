// Chats whose answers are being written, by the id that their clients know: how another request
// reaches them. Made by app; kept by exchange/chat-exchange; asked by the dialects.
import type { Answer } from '../../engine/api.js';

export interface LiveChat {
  /** Those that were begun. */
  readonly answers: readonly Answer[];
  /** Thinking may be told to end. */
  readonly hasControl: boolean;
}

export class LiveChats {
  readonly #chats = new Map<string, LiveChat>();

  get(id: string): LiveChat | undefined {
    return this.#chats.get(id);
  }

  /** Returns what takes it out again. */
  add(id: string, chat: LiveChat): () => void {
    this.#chats.set(id, chat);
    return () => void this.#chats.delete(id);
  }
}
