// Chats whose answers are being generated, by the id that clients know, so that another request can
// reach them. Made by app; filled by exchange/chat-exchange; read by the dialects.
import type { Answer } from '../../engine/api.js';

export interface LiveChat {
  /** The answers that have begun. */
  readonly answers: readonly Answer[];
  /** Whether a request may end the thinking. */
  readonly hasControl: boolean;
}

export class LiveChats {
  readonly #chats = new Map<string, LiveChat>();

  get(id: string): LiveChat | undefined {
    return this.#chats.get(id);
  }

  /** Returns a function that removes the chat. */
  add(id: string, chat: LiveChat): () => void {
    this.#chats.set(id, chat);
    return () => void this.#chats.delete(id);
  }
}
