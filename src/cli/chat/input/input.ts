// What the dialogue needs of the place where messages come from: a terminal that can be drawn on,
// or a plain one.

export type Entry =
  /** `fenced`: it is a message even if it begins with a slash. */
  | { kind: 'text'; text: string; fenced: boolean }
  | { kind: 'leave'; code: number };

export interface Input {
  /** Ctrl-C while nothing is read. */
  onInterrupt: () => void;
  /** Something is to be said while an answer is written. */
  onSay: () => void;
  /** A message was thrown away by Ctrl-C. */
  onClear: () => void;
  /** What is typed is kept for the arrow keys. */
  keepsHistory: boolean;
  /** How wide a line may be; Infinity where nobody cares. */
  readonly columns: number;
  /**
   * How a line that was sent comes back to be changed, as told to a person; '' where nothing brings
   * it back.
   */
  readonly recalls: string;
  /** The next message; `initial` stands there already, to be edited. */
  read(initial: string): Promise<Entry>;
  /** An answer's text, as it comes. */
  write(text: string): void;
  /** Lines to a person, tamed, which do not disturb a message half typed. */
  say(text: string): void;
  /** The same as the key Ctrl-C. */
  interrupt(): void;
  /** Ends a `read` as if the person had left. */
  leave(): void;
  close(): void;
}

export const againLeaves = 'Ctrl-C again leaves; so do Ctrl-D and /quit.';
