// The answers of a request for several. A request whose first answer has a place is not refused
// later: its other answers that find the queue full each wait for the end of one that has a place.
// Called by chat-exchange.
import type { Answer, Released } from '../../engine/api.js';
import { RunningAnswer } from '../../engine/gateway/answer.js';
import { RecuaError } from '../../errors.js';
import type { EngineRequest } from './dialect.js';

type Begin = (request: EngineRequest, signal: AbortSignal, released: Released) => Answer;

export class Siblings {
  readonly #begin: Begin;
  readonly #signal: AbortSignal;
  readonly #released: Released;
  readonly #isAlone: boolean;
  /** Texts of answers, and copies of them on their way to the engine, that are needed. */
  #held: number;
  #unbegun: number;
  /** Answers that have a place in the engine, or ask for one. */
  #placed = 0;
  readonly #waiting: (() => void)[] = [];

  /** `count`: of the answers. Calls `released` once none of their texts is needed any more. */
  constructor(count: number, begin: Begin, signal: AbortSignal, released: Released) {
    this.#held = count;
    this.#unbegun = count;
    this.#isAlone = count === 1;
    this.#begin = begin;
    this.#signal = signal;
    this.#released = released;
  }

  begin(request: EngineRequest): Answer {
    this.#unbegun--;
    if (this.#isAlone) return this.#begin(request, this.#signal, this.#released);
    let asked: Answer | undefined;
    let endsThinking = false;
    const left = new AbortController();
    const signal = AbortSignal.any([this.#signal, left.signal]);
    const answer = new RunningAnswer(() => left.abort(new RecuaError('cancelled', 'Nobody reads the answer.')), () => {
      endsThinking = true;
      asked?.endThinking();
    });
    void this.#follow(answer, () => {
      this.#held++;
      asked = this.#begin(request, signal, this.#drop);
      if (endsThinking) asked.endThinking();
      return asked;
    });
    return answer;
  }

  /** Gives back the texts of the answers that never began. */
  close(): void {
    for (; this.#unbegun > 0; this.#unbegun--) this.#drop();
  }

  readonly #drop = (): void => {
    if (--this.#held === 0) this.#released();
  };

  /** Passes what the engine says on to `answer`. */
  async #follow(answer: RunningAnswer, ask: () => Answer): Promise<void> {
    let saysIt = false;
    this.#placed++;
    for (;;) {
      try {
        const asked = ask();
        const { promptTokens, position } = await asked.accepted;
        answer.accept(promptTokens, position);
        for await (const delta of asked) {
          if (!saysIt) this.#drop();
          saysIt = true;
          answer.push(delta);
        }
        answer.end(await asked.finished);
        break;
      } catch (thrown) {
        const error = RecuaError.from(thrown);
        if (error.code !== 'queue_full' || saysIt || this.#placed === 1) {
          answer.fail(error);
          break;
        }
        this.#placed--;
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
    }
    if (!saysIt) this.#drop();
    // Its place passes to one that waits.
    const next = this.#waiting.shift();
    if (next) next();
    else this.#placed--;
  }
}
