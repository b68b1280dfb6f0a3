// All deltas of an answer, concatenated: for clients of server/ that do not stream, and for
// library/.
import type { Delta } from './protocol.js';
import { ToldList } from './packed-tokens.js';
import { newToolCallId } from './tool-call-id.js';

export interface WholeCall {
  id: string;
  name: string;
  /** JSON text, as the model wrote it. */
  arguments: string;
}

export class WholeAnswer {
  content = '';
  reasoning = '';
  /** Empty unless the request asked for them. */
  readonly tokens = new ToldList();
  readonly promptTokens = new ToldList();
  echo = '';
  readonly #calls = new Map<number, WholeCall>();

  add(delta: Delta): void {
    this.content += delta.content ?? '';
    this.reasoning += delta.reasoning ?? '';
    if (delta.tokens) this.tokens.add(delta.tokens);
    this.echo += delta.echo ?? '';
    if (delta.promptTokens) this.promptTokens.addAll(delta.promptTokens);
    for (const part of delta.toolCalls ?? []) {
      const call = this.#calls.get(part.index) ?? { id: part.id || newToolCallId(), name: part.name ?? '', arguments: '' };
      call.arguments += part.arguments ?? '';
      this.#calls.set(part.index, call);
    }
  }

  idOf(index: number): string {
    return this.#calls.get(index)?.id ?? '';
  }

  get toolCalls(): WholeCall[] {
    return [...this.#calls].sort(([a], [b]) => a - b).map(([, call]) => call);
  }
}
