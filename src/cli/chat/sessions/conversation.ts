// A conversation: the system message, and exchanges of a user message and its answer. Pure; the
// dialogue changes it, session.ts writes it to a file.
import type { Finish } from '../../../engine/api.js';
import type { ChatMessage, FinishReason } from '../../../engine/protocol.js';

/** Fields that another program added to ours; kept unchanged. */
export type Others = Readonly<Record<string, unknown>>;

export interface SavedReply {
  text: string;
  reasoning: string;
  /** 'stopped': by the user; 'failed': by an error after some text. */
  ended: FinishReason | 'stopped' | 'failed';
  /** Absent if the answer is incomplete. */
  usage?: Finish['usage'];
  timings?: Finish['timings'];
  seed?: number;
  /** Fields of the file that are not ours. */
  others?: Others;
}

export interface Exchange {
  message: string;
  /** ISO time of sending. */
  sentAt: string;
  others?: Others;
  /** Undefined while the answer is awaited, and if none came. */
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

  /** Removes the last exchange and returns it. */
  undo(): Exchange | undefined {
    return this.#exchanges.pop();
  }

  /** Puts back what `undo` removed. */
  redo(exchange: Exchange): void {
    this.#exchanges.push(exchange);
  }

  /** Removes the last answer, so that its message can be sent again, and returns the answer. */
  unanswer(): SavedReply | undefined {
    const { last } = this;
    const reply = last?.reply;
    if (last) last.reply = undefined;
    return reply;
  }

  /** The messages for the model. Earlier thinking is left out, as model families expect. */
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
