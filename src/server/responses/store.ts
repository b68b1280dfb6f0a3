// Responses that a later request may go on from, or ask for: in memory, the newest up to a bound of
// their bytes, until the server ends. Made by dialect.
import { RecuaError } from '../../errors.js';

/** Of all that is stored, as JSON text. */
const mostBytes = 64 << 20;
/** A conversation of so many responses is longer than any context. */
const mostSteps = 10_000;

export interface StoredResponse {
  response: object & { output: readonly object[] };
  /** Its own input items, without those of the responses before. */
  input: readonly object[];
  previous: string | undefined;
}

export class ResponseStore {
  /** The longest untouched first. */
  readonly #entries = new Map<string, { text: string; previous: string | undefined }>();
  readonly #mostBytes: number;
  #bytes = 0;

  constructor(bytes = mostBytes) {
    this.#mostBytes = bytes;
  }

  put(id: string, { response, input, previous }: StoredResponse): void {
    const text = JSON.stringify({ response, input });
    this.#drop(id);
    this.#entries.set(id, { text, previous });
    this.#bytes += text.length;
    for (const [oldest] of this.#entries) {
      if (this.#bytes <= this.#mostBytes) break;
      this.#drop(oldest);
    }
  }

  /** @throws RecuaError `response_not_found` */
  get(id: string, param?: string): StoredResponse {
    const entry = this.#entries.get(id);
    if (!entry) {
      const name = id.length > 80 ? `a string of ${id.length} characters` : JSON.stringify(id);
      throw new RecuaError('response_not_found',
        `There is no response ${name}: it was never stored, was deleted, gave way to newer ones, or the server has started anew since.`, { param });
    }
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    return { ...(JSON.parse(entry.text) as Omit<StoredResponse, 'previous'>), previous: entry.previous };
  }

  /** All items of the conversation up to that response, its output included. */
  history(id: string): object[] {
    const steps: object[][] = [];
    for (let next: string | undefined = id; next !== undefined; ) {
      const { input, response, previous }: StoredResponse = this.get(next, 'previous_response_id');
      steps.unshift([...input, ...response.output]);
      if (steps.length > mostSteps) throw new RecuaError('invalid_value', `Expected fewer than ${mostSteps} responses before this one.`, { param: 'previous_response_id' });
      next = previous;
    }
    return steps.flat();
  }

  remove(id: string): object {
    this.get(id);
    this.#drop(id);
    return { id, object: 'response.deleted', deleted: true };
  }

  #drop(id: string): void {
    this.#bytes -= this.#entries.get(id)?.text.length ?? 0;
    this.#entries.delete(id);
  }
}
