// Chats whose answers are being generated, by the id that clients know, so that another request can
// reach them. Made by app; filled by exchange/chat-exchange; read by the dialects.
import type { Answer } from '../../engine/api.js';
import type { Owner } from '../kept/owner.js';

export interface LiveChat {
  /** The answers that have begun. */
  readonly answers: readonly Answer[];
  /** Whether a request may end the thinking. */
  readonly hasControl: boolean;
  /** The name of the API key that asked for it, if any. */
  readonly by: string | undefined;
}

export class LiveChats {
  readonly #chats = new Map<string, LiveChat>();

  get(id: string, owner: Owner): LiveChat | undefined {
    const chat = this.#chats.get(id);
    return chat && owner.has(chat.by) ? chat : undefined;
  }

  /** Returns a function that removes the chat. */
  add(id: string, chat: LiveChat): () => void {
    this.#chats.set(id, chat);
    return () => void this.#chats.delete(id);
  }
}
