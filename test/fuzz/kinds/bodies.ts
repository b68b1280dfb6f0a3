// Requests to every route of the OpenAPI document, as a client could send them by mistake or on
// purpose, to `recua api` over the built-in model: one server for all cases. Each gets an answer in
// the shape of its dialect, with a code of docs/errors.md. At the end the same processes answer as
// at first.
import fc from 'fast-check';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorTable } from '#recua/errors.js';
import { describeApi } from '#recua/server/app.js';
import { mainPath, withHome } from '../../cli/recua.js';
import { arbitrary } from '../../server/reference/body-arbitraries.js';
import { allBodies } from '../../server/reference/schemas.js';
import { edited, editedText, edits, jsonOf, textEdits, unchanged, type Edit, type TextEdit } from '../edits.js';
import { kind, type Outcome } from '../kind.js';

interface Case {
  /** `post /v1/chat/completions`. */
  route: string;
  /** Values for path parameters. */
  id: string;
  query: string;
  /** Undefined: no body. */
  body?: unknown;
  edits: Edit[];
  textEdits: TextEdit[];
  encoding: 'utf8' | 'latin1' | 'utf16le';
  headers: Record<string, string>;
}

const { document } = describeApi();
const bodies = new Map(allBodies(document).map((body) => [body.name, body]));

/** Leaves out a route that never ends, and one whose body is a form, which is a kind of its own. */
const others = new Set(['get /models/sse']);
const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).flatMap(([method, { requestBody, description }]) => {
    const route = `${method} ${path}`;
    if (description?.startsWith('The same as') || others.has(route)) return [];
    const name = (requestBody?.content['application/json']?.schema.$ref ?? '').replace(/^.*\//, '');
    return [{ route, body: bodies.get(name) }];
  }),
);

const query = fc.array(fc.tuple(fc.constantFrom('limit', 'after', 'order', 'stream', 'starting_after', 'purpose', 'include[]', 'model', 'action', 'fail_on_no_slot', '__proto__', 'x'), fc.constantFrom('', '0', '-1', '1', '1e9', '99999999999999999999', 'true', 'asc', 'x', '%00', '%', '%F0%9F%92%A5', 'save', 'restore', 'erase', 'default', 'a'.repeat(3_000))), { maxLength: 3 })
  .map((pairs) => pairs.map((pair) => pair.join('=')).join('&'));
const id = fc.oneof(fc.constantFrom('default', '0', 'x', 'RESPONSE', '%00', '..%2f..', '%', '__proto__', 'a'.repeat(3_000), '%F0%9F%92%A5', '-1', ''), fc.webSegment());
const headers = fc.oneof({ weight: 12, arbitrary: fc.constant<Record<string, string>>({ 'content-type': 'application/json' }) }, fc.constantFrom<Record<string, string>>(
  {}, { 'content-type': 'text/plain' }, { 'content-type': 'application/json; charset=latin1' }, { 'content-type': 'application/json; charset=utf-16' }, { 'content-type': 'multipart/form-data' }, { 'content-type': 'application/x-www-form-urlencoded' }, { 'content-type': ';;;' },
  { 'content-type': 'application/json', 'content-encoding': 'gzip' }, { 'content-type': 'application/json', 'content-encoding': 'nothing' }, { 'content-type': 'application/json', 'accept': 'text/event-stream', 'anthropic-version': 'x' }, { 'content-type': 'application/json', 'x-request-id': 'é'.repeat(100) },
  { 'content-type': 'application/json', 'authorization': 'Bearer x', 'x-priority': 'NaN' }, { 'content-type': 'application/json', 'if-match': '*' }, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }, { 'content-type': 'application/json', 'expect': '100-continue' },
));

const caseOf = ({ route, body }: (typeof routes)[number]): fc.Arbitrary<Case> =>
  fc.record({
    route: fc.constant(route),
    id,
    query: fc.oneof({ weight: 2, arbitrary: fc.constant('') }, query),
    headers,
    ...(body ? { body: fc.oneof(arbitrary(body.schema), fc.constantFrom<unknown>(...body.examples)) } : {}),
    edits: body ? fc.oneof({ weight: 1, arbitrary: unchanged }, { weight: 3, arbitrary: edits() }) : unchanged,
    textEdits: body ? fc.oneof({ weight: 8, arbitrary: unchanged }, textEdits()) : unchanged,
    encoding: fc.oneof({ weight: 30, arbitrary: fc.constant('utf8' as const) }, fc.constantFrom('latin1' as const, 'utf16le' as const)),
  }) as fc.Arbitrary<Case>;

const json = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** The code of an error, wherever the dialect puts it. */
function codeOf(value: unknown): string | undefined {
  const { error, code } = (value ?? {}) as { error?: { code?: unknown }; code?: unknown };
  const found = (typeof error === 'object' && error !== null ? error.code : undefined) ?? code;
  return typeof found === 'string' ? found : undefined;
}

interface Answer {
  status: number;
  type: string;
  text: string;
}

/** The fault of an answer, or undefined. */
function faultOf({ status, type, text }: Answer, method: string): string | undefined {
  if (status >= 400) {
    const code = codeOf(json(text));
    if (code === undefined || !Object.hasOwn(errorTable, code)) return 'an error without a code';
    const row = errorTable[code as keyof typeof errorTable];
    if (row.status !== status) return `the code ${code}, which goes with ${row.status}`;
    return status === 500 || code === 'internal_error' ? `an error of the server, ${code}` : undefined;
  }
  if (status < 200 || status >= 300) return 'an unknown status';
  if (type.startsWith('text/event-stream')) {
    const last = text.trimEnd().split('\n').filter((line) => line.startsWith('data:')).at(-1)?.slice(5).trim();
    const event = (json(last ?? '') ?? {}) as { type?: string; stop?: boolean; error?: unknown };
    if (/"code":"(internal_error|model_crashed|generation_failed|model_stuck)"/.test(text)) return 'a stream with an error of the server';
    const isWhole = last === '[DONE]' || event.stop === true || event.error !== undefined || ['message_stop', 'error', 'response.completed', 'response.incomplete', 'response.failed', 'response.cancelled'].includes(event.type ?? '');
    return isWhole ? undefined : 'a stream that does not end';
  }
  if (type.includes('ndjson')) {
    const last = (json(text.trimEnd().split('\n').at(-1)!) ?? {}) as { done?: boolean; status?: string; error?: unknown };
    return last.done === true || last.error !== undefined || last.status === 'success' ? undefined : 'lines that do not end';
  }
  if (type.startsWith('application/json')) return json(text) === undefined ? 'text that is no JSON' : undefined;
  return method === 'get' || (status === 204 && text === '') ? undefined : `${type || 'nothing'} in place of JSON`;
}

const peakOf = (pid: number): number => {
  try {
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1_024;
  } catch {
    return 0;
  }
};

export default kind<Case>({
  cases: fc.oneof(...routes.map((route) => ({ weight: route.body ? 6 : 1, arbitrary: caseOf(route) }))),
  few: 100, mostMs: 30_000, mostMib: 600,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'recua-fuzz-bodies-'));
    const slots = join(folder, 'slots');
    mkdirSync(slots);
    const env = { ...process.env, ...withHome({ SERVICE_HOME: join(folder, 'models'), HOME: folder, XDG_CONFIG_HOME: folder, XDG_CACHE_HOME: folder, HF_HUB_OFFLINE: '1' }) };
    const server = spawn(process.execPath, [mainPath, 'api', 'builtin', '--port', '0', '--ctx-size', '256', '--parallel', '2', '--threads', '1', '--max-tokens', '3', '--slot-save-path', slots, '--ui-sessions'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    const listening = new Promise<string>((resolve, reject) => {
      for (const stream of [server.stdout, server.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          said = (said + text).slice(-20_000);
          const url = /Recua listens on (http:\/\/\S+)/.exec(said)?.[1];
          if (url !== undefined) resolve(url);
        });
      }
      server.once('exit', () => reject(new Error(`The server ended: ${said}`)));
    });
    process.once('exit', () => server.kill('SIGKILL'));
    const url = new URL(await listening);
    const agent = new Agent({ keepAlive: true });
    const send = (method: string, path: string, sent: Record<string, string>, body: Buffer | undefined): Promise<Answer> =>
      new Promise((resolve, reject) => {
        const req = request(
          {
            host: url.hostname,
            port: url.port,
            method: method.toUpperCase(),
            path,
            agent,
            headers: { ...sent, ...(body && !('transfer-encoding' in sent) ? { 'content-length': body.length } : {}) },
          },
          (res) => {
            let text = '';
            res
              .setEncoding('utf8')
              .on('data', (piece: string) => (text += piece))
              .on('end', () => resolve({ status: res.statusCode!, type: res.headers['content-type'] ?? '', text }))
              .on('error', reject);
          },
        );
        req.on('error', reject);
        req.end(body);
      });
    const plain = async (): Promise<string> => {
      const body = { messages: [{ role: 'user', content: 'Hello!' }], temperature: 0, max_tokens: 12 };
      const { status, text } = await send('post', '/v1/chat/completions', { 'content-type': 'application/json' }, Buffer.from(JSON.stringify(body)));
      if (status !== 200) throw new Error(`A plain chat is answered with ${status}: ${text}`);
      return (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]!.message.content;
    };
    const first = await plain();
    const engineOf = (): number => Number(spawnSync('ps', ['-o', 'pid=', '--ppid', String(server.pid)], { encoding: 'utf8' }).stdout.trim().split('\n')[0]);
    const engine = engineOf();
    const stored = await send('post', '/v1/responses', { 'content-type': 'application/json' }, Buffer.from('{"input":"hi","max_output_tokens":1}'));
    const response = (JSON.parse(stored.text) as { id: string }).id;
    return {
      async take({ route, id: given, query: asked, body, edits: made, textEdits: changed, encoding, headers: sent }): Promise<Outcome> {
        const [method, pattern] = route.split(' ') as [string, string];
        const path = pattern.replace(/\{\w+\}/, given.replace('RESPONSE', response));
        const text = body === undefined ? undefined : editedText(jsonOf(edited(body, made)), changed);
        const latin = Object.fromEntries(Object.entries(sent).map(([name, value]) => [name, Buffer.from(value).toString('latin1')]));
        const answer = await send(method, asked === '' ? path : `${path}?${asked}`, latin, text === undefined ? undefined : Buffer.from(text, encoding)).catch((thrown: Error) => {
          throw new Error(`${method} ${path}: no answer, ${thrown.message}\n${said.slice(-2_000)}`);
        });
        const fault = faultOf(answer, method);
        if (fault !== undefined) throw new Error(`${method} ${path.slice(0, 100)}: ${fault}: ${answer.status} ${answer.text.slice(0, 600)} for ${text?.slice(0, 600)}\n${said.slice(-1_500)}`);
        if (answer.status < 300) return 'accepted';
        return 'refused';
      },
      othersPeakBytes: () => peakOf(server.pid!) + peakOf(engine),
      async close() {
        const last = await plain();
        if (last !== first) throw new Error(`A plain chat had ${JSON.stringify(first)} for an answer, and now has ${JSON.stringify(last)}.`);
        if (engineOf() !== engine) throw new Error(`The engine process has died: ${said.slice(-2_000)}`);
        const ended = new Promise((resolve) => server.once('exit', resolve));
        server.kill('SIGTERM');
        if (await ended !== 0) throw new Error(`The server ended with ${server.exitCode ?? server.signalCode}: ${said.slice(-2_000)}`);
        rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
      },
    };
  },
});
