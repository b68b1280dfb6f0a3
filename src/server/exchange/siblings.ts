// The answers of a request for several. Once one of them has begun, the queue refuses none of the
// others: each that finds it full waits for the end of another one. If no other one has a place, it
// gets one in any case. Called by chat-exchange.
import type { Answer, Released } from '../../engine/api.js';
import { RunningAnswer } from '../../engine/gateway/answer.js';
import { RecuaError, type ErrorCode } from '../../errors.js';
import type { EngineRequest } from './dialect.js';

type Begin = (request: EngineRequest, signal: AbortSignal, released: Released) => Answer;

/** What the queue refuses a request with. */
const noPlace: ReadonlySet<ErrorCode> = new Set(['queue_full', 'queue_timeout']);

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
  #hasBegun = false;
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

  /** Calls `waits` if it finds the queue full, and another answer has a place. */
  begin(request: EngineRequest, waits: () => void = () => undefined): Answer {
    if (this.#isAlone) {
      const only = this.#begin(request, this.#signal, this.#released);
      this.#unbegun--;
      return only;
    }
    this.#unbegun--;
    let asked: Answer | undefined;
    let endsThinking = false;
    const left = new AbortController();
    const signal = AbortSignal.any([this.#signal, left.signal]);
    const answer = new RunningAnswer(() => left.abort(new RecuaError('cancelled', 'Nobody reads the answer.')), () => {
      endsThinking = true;
      asked?.endThinking();
    });
    void this.#follow(answer, (follows) => {
      this.#held++;
      try {
        asked = this.#begin(follows ? { ...request, asker: { client: '', priority: 0, ...request.asker, follows } } : request, signal, this.#drop);
      } catch (thrown) {
        this.#drop();
        throw thrown;
      }
      if (endsThinking) asked.endThinking();
      return asked;
    }, waits);
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
  async #follow(answer: RunningAnswer, ask: (follows: boolean) => Answer, waits: () => void): Promise<void> {
    let saysIt = false;
    let follows = false;
    this.#placed++;
    for (;;) {
      try {
        const asked = ask(follows);
        const { promptTokens, position } = await asked.accepted;
        answer.accept(promptTokens, position);
        for await (const delta of asked) {
          if (!saysIt) this.#drop();
          saysIt = this.#hasBegun = true;
          answer.push(delta);
        }
        answer.end(await asked.finished);
        this.#hasBegun = true;
        break;
      } catch (thrown) {
        const error = RecuaError.from(thrown);
        const isLast = this.#placed === 1;
        if (!noPlace.has(error.code) || saysIt || follows || (isLast && !this.#hasBegun)) {
          answer.fail(error);
          break;
        }
        follows = isLast;
        if (isLast) continue;
        this.#placed--;
        waits();
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
