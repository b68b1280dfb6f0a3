// Responses that a later request may go on from, or ask for: in memory, the newest up to a bound of
// their bytes, until the server ends. Made by dialect.
import { RecuaError } from '../../errors.js';

/** Of all that is stored, as JSON text. */
const mostBytes = 64 << 20;
/** A conversation of so many responses is longer than any context. */
const mostSteps = 10_000;

/** Each as the bytes of JSON text, so that those who ask for it at once share them. */
export interface StoredResponse {
  response: Buffer;
  /** Of a list of its own input items, without those of the responses before. */
  input: Buffer;
  /** The response that it goes on from. */
  previous: string | undefined;
}

export class ResponseStore {
  /** The longest untouched first. */
  readonly #entries = new Map<string, StoredResponse>();
  readonly #mostBytes: number;
  #bytes = 0;

  constructor(bytes = mostBytes) {
    this.#mostBytes = bytes;
  }

  put(id: string, response: { output: readonly object[] }, items: readonly object[], previous: string | undefined): void {
    const entry = { response: Buffer.from(JSON.stringify(response)), input: Buffer.from(JSON.stringify(listOf(items))), previous };
    this.#drop(id);
    this.#entries.set(id, entry);
    this.#bytes += sizeOf(entry);
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
    return entry;
  }

  /**
   * All items of the conversation up to that response, its output included. `hold` is told before
   * how many bytes of JSON they are, and may throw.
   */
  history(id: string, hold: (bytes: number) => void): object[] {
    const steps: StoredResponse[] = [];
    for (let next: string | undefined = id; next !== undefined; next = steps[0]!.previous) {
      steps.unshift(this.get(next, 'previous_response_id'));
      if (steps.length > mostSteps) throw new RecuaError('invalid_value', `Expected fewer than ${mostSteps} responses before this one.`, { param: 'previous_response_id' });
    }
    hold(steps.reduce((sum, step) => sum + sizeOf(step), 0));
    return steps.flatMap(({ response, input }) => [
      ...(JSON.parse(input.toString()) as { data: object[] }).data, ...(JSON.parse(response.toString()) as { output: object[] }).output,
    ]);
  }

  /** @throws RecuaError `response_not_found` */
  remove(id: string): object {
    this.get(id);
    this.#drop(id);
    return { id, object: 'response.deleted', deleted: true };
  }

  #drop(id: string): void {
    const entry = this.#entries.get(id);
    if (entry) this.#bytes -= sizeOf(entry);
    this.#entries.delete(id);
  }
}

function sizeOf({ response, input }: StoredResponse): number {
  return response.length + input.length;
}

function listOf(items: readonly object[]): object {
  const ids = items.map((item) => (item as { id?: string }).id ?? null);
  return { object: 'list', data: items, first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null, has_more: false };
}
