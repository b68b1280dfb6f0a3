// What stands before one engine's loads: passes at once where all is proved that its model needs,
// and tells its log which CPU libraries are not used.
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
  /** What of the CPU's libraries is not to be used, once it has passed. */
  refused: Refused = knownRefused();

  constructor(options: EngineOptions, log: Log) {
    this.#families = familiesOf(options);
    this.#log = log;
    // What tries a library needs no file of anybody's: it is confined where an engine need not be.
    this.#confined = ({ on: 'has to be', auto: 'if it can be', off: 'no' } as const)[options.sandbox];
  }

  /**
   * Undefined where nothing is to be waited for. Rejects with a RecuaError `backend_unusable` or
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

  /** A process met an instruction that the processor has not: what was proved counts no more. */
  doubt(): void {
    forget();
  }

  /** Ends a process that tries a library. */
  stop(): void {
    this.#stop.abort();
  }
}
