// The chats that `recua chat` saves, as routes see them. Implemented by cli/serve/saved-chats, and
// by fakes in tests.

/** Of a list. */
export interface SavedChatEntry {
  name: string;
  /** Milliseconds since 1970. */
  updatedMs: number;
  /** Absent of a damaged file. */
  model?: string;
  exchanges?: number;
  /** What is wrong with its file. */
  error?: string;
}

export interface SavedChat {
  name: string;
  /** Another one whenever the file is another; without the quotes of its header. */
  etag: string;
  /** As it stands in the file. */
  session: Record<string, unknown>;
  /** Another process has it open, and writes it alone. */
  isOpen: boolean;
}

/** Each throws `session_not_found`, `invalid_session`, `invalid_usage` for a name that is none. */
export interface SavedChats {
  /** The newest first. */
  list(): Promise<readonly SavedChatEntry[]>;
  read(name: string): Promise<SavedChat>;
  /** Under this name, or one found for it. What the session does not say is as in a new chat. */
  create(session: Record<string, unknown>, name: string | undefined): Promise<SavedChat>;
  /**
   * In place of what was read with this ETag; `*` is in place of anything.
   * @throws RecuaError `session_changed`, `session_locked`
   */
  write(name: string, etag: string, session: Record<string, unknown> | undefined, newName: string | undefined): Promise<SavedChat>;
  /** @throws RecuaError `session_changed`, `session_locked` */
  remove(name: string, etag: string): Promise<void>;
}
