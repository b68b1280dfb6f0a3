// A conversation: the system message, and exchanges of a person's message with its answer. Pure;
// the dialogue changes it, session.ts writes it down.
import type { Finish } from '../../../engine/api.js';
import type { ChatMessage, FinishReason } from '../../../engine/protocol.js';

/** What another program wrote beside our fields; kept as it is. */
export type Others = Readonly<Record<string, unknown>>;

export interface SavedReply {
  text: string;
  reasoning: string;
  /** 'stopped': by the person; 'failed': by an error after some text had come. */
  ended: FinishReason | 'stopped' | 'failed';
  /** Absent where the answer did not come to its end. */
  usage?: Finish['usage'];
  timings?: Finish['timings'];
  seed?: number;
  /** Fields of its file that are none of ours. */
  others?: Others;
}

export interface Exchange {
  message: string;
  /** ISO time of sending. */
  sentAt: string;
  others?: Others;
  /** Undefined while it is awaited, and where none came. */
  reply?: SavedReply | undefined;
}

export class SavedConversation {
  system: string;
  readonly #exchanges: Exchange[];

  constructor(system = '', exchanges: readonly Exchange[] = []) {
    this.system = system;
    this.#exchanges = exchanges.map((one) => ({ ...one }));
  }

  get exchanges(): readonly Exchange[] {
    return this.#exchanges;
  }

  get last(): Exchange | undefined {
    return this.#exchanges.at(-1);
  }

  ask(message: string, sentAt: string): void {
    this.#exchanges.push({ message, sentAt });
  }

  reply(reply: SavedReply): void {
    this.last!.reply = reply;
  }

  /** Takes the last exchange back and returns it. */
  undo(): Exchange | undefined {
    return this.#exchanges.pop();
  }

  /** Puts back what `undo` took. */
  redo(exchange: Exchange): void {
    this.#exchanges.push(exchange);
  }

  /**
   * Forgets the last answer, so that its message can be asked again; returns it, for the case that
   * no other comes.
   */
  unanswer(): SavedReply | undefined {
    const { last } = this;
    const reply = last?.reply;
    if (last) last.reply = undefined;
    return reply;
  }

  /** As the model gets it. What it thought earlier is left out, as families want it. */
  messages(): ChatMessage[] {
    return [
      ...(this.system === '' ? [] : [{ role: 'system' as const, content: this.system }]),
      ...this.#exchanges.flatMap(({ message, reply }): ChatMessage[] => [
        { role: 'user', content: message },
        ...(reply ? [{ role: 'assistant' as const, content: reply.text }] : []),
      ]),
    ];
  }
}
