// The source of messages for the dialogue: a terminal that can be drawn on, or a plain one.

export type Entry =
  /** `fenced`: a message even if it begins with a slash. */
  | { kind: 'text'; text: string; fenced: boolean }
  | { kind: 'leave'; code: number };

export interface Input {
  /** Called on Ctrl-C while no message is being read. */
  onInterrupt: () => void;
  /** Called before `say` prints while an answer is being written. */
  onSay: () => void;
  /** Called when Ctrl-C discards a message. */
  onClear: () => void;
  /** Whether messages are kept for the arrow keys. */
  keepsHistory: boolean;
  /** Maximum width of a line; Infinity for no limit. */
  readonly columns: number;
  /** A sentence that says how to get a sent message back for editing; '' if there is no way. */
  readonly recalls: string;
  /** Reads the next message; `initial` is its text at the start, to be edited. */
  read(initial: string): Promise<Entry>;
  /** An answer's text, as it comes. */
  write(text: string): void;
  /** Prints lines without control characters, without disturbing a half-typed message. */
  say(text: string): void;
  /** Acts like the key Ctrl-C. */
  interrupt(): void;
  /** Ends a `read` as if the user had left. */
  leave(): void;
  close(): void;
}

export const againLeaves = 'Ctrl-C again leaves; so do Ctrl-D and /quit.';
