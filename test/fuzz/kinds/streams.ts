// What a server sends to readers of its events: to the command line and to the page. The server may
// be any program of any version, and may end or stop in the middle of a letter.
import fc from 'fast-check';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ServedModel } from '#recua/cli/answering/served-model.js';
import { RecuaError } from '#recua/errors.js';
import { chat } from '../../engine/requests.js';
import { edited, edits, editedText, jsonOf, textEdits, unchanged, type Edit, type TextEdit } from '../edits.js';
import { kind, type Outcome } from '../kind.js';

interface Case {
  events: unknown[];
  edits: Edit[];
  textEdits: TextEdit[];
  /** Sizes of its pieces in bytes, repeated. */
  pieces: number[];
  status: number;
  done: boolean;
  /** The connection is cut at this thousandth of the bytes. */
  cut: number;
  reader: 'command' | 'page';
}

const chunk = (delta: object, finish: string | null = null) => ({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }] });
const usage = {
  ...chunk({}),
  choices: [],
  usage: {
    prompt_tokens: 5,
    completion_tokens: 3,
    total_tokens: 8,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 1 },
  },
};
const sound = [chunk({ role: 'assistant', content: '' }), chunk({ content: 'Grüße 💥' }), chunk({ reasoning_content: 'x' }), { ...chunk({}, 'stop'), timings: { prompt_ms: 1, predicted_ms: 2 }, warnings: ['w'] }, usage];
const events = fc.oneof({ weight: 5, arbitrary: fc.constant<unknown[]>(sound) }, fc.array(fc.oneof(fc.constantFrom<unknown>(...sound, { error: { code: 'queue_full', message: 'm', type: 't' } }, { error: 'x' }, null, 5, 'x', []), fc.jsonValue({ maxDepth: 3 })), { maxLength: 6 }));

const isText = (value: unknown): boolean => value === undefined || typeof value === 'string';
const isCount = (value: unknown): boolean => typeof value === 'number' && value >= 0;

export default kind<Case>({
  cases: fc.record({
    events,
    edits: fc.oneof({ weight: 1, arbitrary: unchanged }, { weight: 3, arbitrary: edits() }),
    textEdits: fc.oneof(
      { weight: 3, arbitrary: unchanged },
      textEdits(['data: ', '\n\n', '\r\n', ': ping\n\n', 'event: x\n', '[DONE]', '"', '{', '\ud800', '\u0000', '\ufeff', 'data:']),
    ),
    pieces: fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 4 }),
    status: fc.oneof({ weight: 12, arbitrary: fc.constant(200) }, fc.constantFrom(204, 301, 400, 401, 404, 500, 503)),
    done: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, fc.constant(false)),
    cut: fc.oneof({ weight: 8, arbitrary: fc.constant(1_000) }, fc.nat(1_000)),
    reader: fc.constantFrom('command', 'command', 'page'),
  }),
  few: 200,
  mostMs: 10_000,
  mostMib: 500,
  async open() {
    let bytes = Buffer.alloc(0);
    let now: Pick<Case, 'pieces' | 'status' | 'cut'>;
    const server = createServer((req, res) => {
      req.resume();
      res.writeHead(now.status, { 'content-type': 'text/event-stream' });
      const end = Math.floor((bytes.length * now.cut) / 1_000);
      for (let at = 0, turn = 0; at < end; turn++) {
        const next = Math.min(end, at + now.pieces[turn % now.pieces.length]!);
        res.write(bytes.subarray(at, next));
        at = next;
      }
      if (now.cut < 1_000) res.destroy();
      else res.end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const model = new ServedModel({ name: 'm', id: 'm' }, { url, id: 'm', description: 'm', contextSize: 100 } as ConstructorParameters<
      typeof ServedModel
    >[1]);
    // Browser globals that the page's module needs.
    Object.assign(globalThis, { document: { baseURI: `${url}/` }, sessionStorage: { getItem: () => null } });
    const pageModule = new URL('../../../web/app/server.js', import.meta.url).href;
    const page = (await import(pageModule)) as {
      events(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<unknown>;
      ServerError: typeof Error;
    };
    const byCommand = async (): Promise<Outcome> => {
      const answer = model.chat(chat('Hi'), new AbortController().signal);
      try {
        for await (const { content, reasoning } of answer)
          if (!isText(content) || !isText(reasoning)) throw new Error(`A delta is ${JSON.stringify({ content, reasoning })}.`);
        const { finishReason, usage: used, timings, warnings } = await answer.finished;
        const counts = [
          used.promptTokens,
          used.cachedTokens,
          used.completionTokens,
          used.reasoningTokens ?? 0,
          used.draftedTokens ?? 0,
          used.acceptedTokens ?? 0,
          timings.promptMs,
          timings.generateMs,
        ];
        if (typeof finishReason !== 'string' || !counts.every(isCount) || !Array.isArray(warnings) || !warnings.every(isText))
          throw new Error(`An answer ends with ${JSON.stringify({ finishReason, used, timings, warnings })}.`);
        return 'accepted';
      } catch (thrown) {
        if (!(thrown instanceof RecuaError)) throw thrown;
        return 'refused';
      }
    };
    const byPage = async (): Promise<Outcome> => {
      try {
        for await (const event of page.events('v1/chat/completions', {}, new AbortController().signal))
          if (event === undefined) throw new Error('An event is undefined.');
        return 'accepted';
      } catch (thrown) {
        if (!(thrown instanceof page.ServerError)) throw thrown;
        return 'refused';
      }
    };
    const take = async ({ events: all, edits: made, textEdits: changed, done, reader, ...more }: Case): Promise<Outcome> => {
      // The page would ask the user for a key.
      if (reader === 'page' && more.status === 401) more.status = 403;
      const made2 = edited(all, made);
      const lines = (Array.isArray(made2) ? (made2 as unknown[]) : [made2]).map((event) => `data: ${jsonOf(event)}\n\n`);
      bytes = Buffer.from(editedText([...lines, ...(done ? ['data: [DONE]\n\n'] : [])].join(''), changed));
      now = more;
      return reader === 'command' ? byCommand() : byPage();
    };
    return {
      take,
      async close() {
        if (
          (await take({ events: sound, edits: [], textEdits: [], pieces: [7], status: 200, done: true, cut: 1_000, reader: 'command' })) !==
          'accepted'
        )
          throw new Error('A sound stream is not read.');
        server.close();
        server.closeAllConnections();
      },
    };
  },
});
