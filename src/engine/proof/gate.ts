// The check before one engine's loads. It passes at once if everything that the model needs is
// proved already. Logs which CPU libraries are not used.
import type { Refused } from '../../addon/refused.js';
import type { Log } from '../api.js';
import type { EngineOptions } from '../protocol.js';
import { builtWithout } from './built-without.js';
import { familiesOf } from './families.js';
import { isProved, knownRefused, prove, refusedTexts } from './prove.js';
import { forget } from './remembered.js';

export class ProofGate {
  readonly #families: readonly string[];
  readonly #log: Log;
  readonly #confined: 'has to be' | 'if it can be' | 'no';
  readonly #stop = new AbortController();
  /** CPU libraries and kernels not to use; final once the gate has passed. */
  refused: Refused = knownRefused();

  constructor(options: EngineOptions, log: Log) {
    this.#families = familiesOf(options);
    this.#log = log;
    // A trial needs no user files, so 'auto' confines it even if the engine needs no sandbox.
    this.#confined = ({ on: 'has to be', auto: 'if it can be', off: 'no' } as const)[options.sandbox];
  }

  /**
   * Undefined if there is nothing to wait for. Rejects with RecuaError `backend_unusable` or
   * `sandbox_unavailable`.
   */
  pass(): Promise<void> | undefined {
    if (!isProved(this.#families)) return this.#prove();
    this.#tell(knownRefused());
    return undefined;
  }

  async #prove(): Promise<void> {
    const { refused } = await prove(this.#families, { log: this.#log, confined: this.#confined, signal: this.#stop.signal });
    this.#tell(refused);
  }

  #tell(refused: Refused): void {
    this.refused = refused;
    for (const text of [...refusedTexts(refused), ...builtWithout()]) this.#log('warn', text);
  }

  /** An engine process died of an illegal instruction: earlier results no longer count. */
  doubt(): void {
    forget();
  }

  /** Ends a running trial. */
  stop(): void {
    this.#stop.abort();
  }
}
