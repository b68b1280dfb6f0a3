// The chats that `recua chat` saves, for routes. Implemented by cli/serve/saved-chats, and by fakes
// in tests.

/** An entry of the list. */
export interface SavedChatEntry {
  name: string;
  /** Milliseconds since 1970. */
  updatedMs: number;
  /** Absent if the file is damaged. */
  model?: string;
  exchanges?: number;
  /** Problem with its file. */
  error?: string;
}

export interface SavedChat {
  name: string;
  /** Changes whenever the file changes; without the quotes of the header. */
  etag: string;
  /** The contents of the file. */
  session: Record<string, unknown>;
  /** Another process has it open, and only that may write it. */
  isOpen: boolean;
}

/** Each throws `session_not_found`, `invalid_session`, or `invalid_usage` for an invalid name. */
export interface SavedChats {
  /** Newest first. `search`: only those whose name, messages or answers contain it, in any case. */
  list(search?: string): Promise<readonly SavedChatEntry[]>;
  read(name: string): Promise<SavedChat>;
  /** Picks a name if none is given. Missing fields of the session get the values of a new chat. */
  create(session: Record<string, unknown>, name: string | undefined): Promise<SavedChat>;
  /**
   * Replaces the version with this ETag; `*` replaces any.
   * @throws RecuaError `session_changed`, `session_locked`
   */
  write(name: string, etag: string, session: Record<string, unknown> | undefined, newName: string | undefined): Promise<SavedChat>;
  /** @throws RecuaError `session_changed`, `session_locked` */
  remove(name: string, etag: string): Promise<void>;
}
