// A server sends its spans to a collector, as a user sets it up: what they report of real requests,
// that they contain no user text, and which parts of OpenTelemetry load without tracing.
import t from 'tap';
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import type { Test } from 'tap';
import { recua, root } from '../cli/recua.js';
import { ownFolder } from '../server/app-under-test.js';
import { startCollector, type Collected } from '../server/traces/collector.js';
import { ask, startService } from './service.js';

const secret = 'xyzzy';
const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;
/** Spans are sent soon. */
const env = { OTEL_BSP_SCHEDULE_DELAY: '100' };

const idOf = (id: string) => (span: Collected): boolean => span.attributes['recua.request_id'] === id;

t.test('chats, streams, messages, embeddings and errors are spans at the collector', async (t) => {
  const collector = await startCollector(t);
  const { url, child, ended } = await startService(t, ['--traces', collector.url, '--alias', 'tiny'], 'builtin', { env: { ...env, OTEL_RESOURCE_ATTRIBUTES: 'team=blue' } });
  const send = async (
    id: string,
    path: string,
    body: object,
    headers: Record<string, string> = {},
  ): Promise<{ span: Collected; reply: Record<string, any> }> => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': id, ...headers },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    return { span: await collector.span(idOf(id)), reply: text.startsWith('{') ? (JSON.parse(text) as Record<string, any>) : { text } };
  };
  const messages = [{ role: 'user', content: `Say ${secret} twice.` }];

  const chat = await send('chat', '/v1/chat/completions', { model: 'tiny', messages, max_tokens: 12, temperature: 0.5, top_p: 0.9, top_k: 30, seed: 7, frequency_penalty: 0.1, presence_penalty: 0.2, stop: [`${secret}-stop`] }, { traceparent });
  const { usage } = chat.reply as { usage: { prompt_tokens: number; completion_tokens: number } };
  t.match(chat.span, { name: 'chat tiny', kind: 2, traceId, parentSpanId: 'b7ad6b7169203331', scope: 'recua' });
  t.match(chat.span.attributes, {
    'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'recua', 'gen_ai.request.model': 'tiny', 'gen_ai.response.model': 'tiny', 'gen_ai.response.id': chat.reply['id'],
    'gen_ai.request.max_tokens': 12, 'gen_ai.request.temperature': 0.5, 'gen_ai.request.top_p': 0.9, 'gen_ai.request.top_k': 30, 'gen_ai.request.seed': 7,
    'gen_ai.request.frequency_penalty': 0.1, 'gen_ai.request.presence_penalty': 0.2, 'gen_ai.request.stream': false,
    'gen_ai.usage.input_tokens': usage.prompt_tokens, 'gen_ai.usage.output_tokens': usage.completion_tokens, 'gen_ai.response.finish_reasons': [chat.reply['choices'][0].finish_reason],
    'http.request.method': 'POST', 'http.route': '/v1/chat/completions', 'http.response.status_code': 200, 'server.address': '127.0.0.1', 'server.port': Number(new URL(url).port),
  });
  t.notOk('error.type' in chat.span.attributes);
  t.match(chat.span.resource, { 'service.name': 'recua', 'service.version': /^\d/, team: 'blue', 'telemetry.sdk.language': 'nodejs' });

  const parts = collector.childrenOf(chat.span);
  t.strictSame(parts.map(({ name, kind }) => [name, kind]), [['queue', 1], ['prefill', 1], ['decode', 1]]);
  let fromMs = chat.span.startMs;
  for (const { startMs, endMs, name } of parts) {
    t.ok(startMs >= fromMs - 0.002 && endMs >= startMs && endMs <= chat.span.endMs + 0.002, `${name} follows what was before it, within the request`);
    fromMs = endMs;
  }
  t.ok(parts[2]!.endMs > parts[2]!.startMs, 'decoding takes time');

  const several = await send('several', '/v1/chat/completions', { messages, max_tokens: 4, n: 2, stream: true });
  t.equal(several.span.attributes['gen_ai.request.choice.count'], 2);
  t.equal(several.span.attributes['gen_ai.request.stream'], true);
  t.equal((several.span.attributes['gen_ai.response.finish_reasons'] as string[]).length, 2);
  t.ok(Number(several.span.attributes['gen_ai.response.time_to_first_chunk']) > 0);
  t.strictSame(collector.childrenOf(several.span).map(({ name, attributes }) => `${name} ${String(attributes['recua.answer'])}`).sort(), ['decode 0', 'decode 1', 'prefill 0', 'prefill 1', 'queue 0', 'queue 1']);
  t.not(several.span.traceId, traceId, 'a trace of its own where no other was named');
  t.equal(several.span.parentSpanId, undefined);

  const message = await send('message', '/v1/messages', { model: 'tiny', max_tokens: 4, messages });
  t.match(message.span, { name: 'chat tiny', attributes: { 'gen_ai.response.id': message.reply['id'], 'http.route': '/v1/messages', 'gen_ai.usage.output_tokens': message.reply['usage'].output_tokens } });
  const text = await send('text', '/v1/completions', { prompt: secret, max_tokens: 4 });
  t.equal(text.span.name, 'text_completion tiny');
  const embedding = await send('embedding', '/v1/embeddings', { model: 'tiny', input: `${secret} ${secret}` });
  t.match(embedding.span, { name: 'embeddings tiny', attributes: { 'gen_ai.usage.input_tokens': embedding.reply['usage'].prompt_tokens } });
  t.notOk('gen_ai.usage.output_tokens' in embedding.span.attributes);
  const background = await send('background', '/v1/responses', { input: secret, background: true, max_output_tokens: 4 });
  const inner = await collector.span(({ parentSpanId }) => parentSpanId === background.span.spanId);
  t.match(inner, { name: 'chat tiny', traceId: background.span.traceId, attributes: { 'recua.inner': true, 'gen_ai.response.id': background.reply['id'] } }, 'what goes on in the background belongs to who asked for it');

  const wrong = await send('wrong', '/v1/chat/completions', { messages, temperature: secret });
  t.match(wrong.span, { name: 'chat tiny', attributes: { 'error.type': 'invalid_type', 'http.response.status_code': 400 } });
  t.notOk(wrong.span.status.code, 'no error of the server');
  const nowhere = await send('nowhere', '/v1/nothing', {});
  t.match(nowhere.span, { name: 'POST', attributes: { 'error.type': 'route_not_found' } });
  t.notOk('gen_ai.operation.name' in nowhere.span.attributes);

  const leaving = new AbortController();
  const left = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST', signal: leaving.signal, headers: { 'content-type': 'application/json', 'x-request-id': 'left' },
    body: JSON.stringify({ messages, stream: true, max_tokens: 3_000, ignore_eos: true }),
  });
  await left.body!.getReader().read();
  leaving.abort();
  const gone = await collector.span(idOf('left'));
  t.equal(gone.attributes['error.type'], 'cancelled');
  t.notOk(gone.status.code);
  t.notOk('gen_ai.response.finish_reasons' in gone.attributes);

  for (const path of ['/health', '/health/ready', '/metrics', '/ui/index.html']) await (await fetch(url + path)).text();
  await (await fetch(`${url}/v1/models`, { headers: { 'x-request-id': 'models' } })).text();
  t.equal((await collector.span(idOf('models'))).name, 'GET /v1/models');
  t.notOk(collector.spans.some(({ attributes }) => /health|metrics|ui/.test(String(attributes['url.path']))), 'what monitors ask makes no spans');

  await (await fetch(`${url}/v1/models`, { headers: { 'x-request-id': 'last' } })).text();
  child.kill('SIGTERM');
  t.equal((await ended).code, 0);
  t.ok(collector.spans.some(idOf('last')), 'the last spans are sent before the server is gone');

  t.notMatch(collector.text(), new RegExp(secret), 'no word of a request');
  const known = new Set<unknown>(Object.values(conventions));
  const names = new Set(collector.spans.flatMap(({ attributes }) => Object.keys(attributes)));
  t.strictSame([...names].filter((name) => !known.has(name) && !name.startsWith('recua.')), [], 'the conventions have all other names');
  const page = readFileSync(join(root, 'docs/watching.md'), 'utf8');
  for (const name of names) t.ok(page.includes(`\`${name}\``), `docs/watching.md tells of ${name}`);
});

t.test('an unreachable collector costs no request, and is reported once', async (t) => {
  const collector = await startCollector(t, '/otlp/v1/traces');
  const { url, child, ended, stderr, saw } = await startService(t, ['--traces', `${collector.url}/otlp`], 'builtin', { env: { ...env, OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc', OTEL_EXPORTER_OTLP_TIMEOUT: '120000' } });
  const list = async (): Promise<void> => void await (await fetch(`${url}/v1/models`)).text();
  collector.status = 400;
  await list();
  await saw(/Warning: Traces cannot be sent/);
  for (let count = 0; count < 3; count++) {
    await list();
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  collector.status = 200;
  await list();
  await saw(/Info: Traces are sent again/);
  t.equal(stderr().match(/Traces cannot be sent/g)!.length, 1);
  t.equal(collector.headers[0]!['authorization'], 'Bearer abc');
  collector.status = 0;
  await list();
  const fromMs = performance.now();
  child.kill('SIGTERM');
  t.equal((await ended).code, 0);
  t.ok(performance.now() - fromMs < 60_000, 'the end does not wait for one that says nothing');
});

/** Makes a process print at its end which OpenTelemetry packages it has loaded. */
function telling(t: Test): { env: Record<string, string>; packagesOf(pid: number): string[] } {
  const folder = t.testdir({
    'tell.mjs': `
      import { writeFileSync } from 'node:fs';
      import Module from 'node:module';
      process.on('exit', () => writeFileSync(process.env.TELL_IN + '/' + process.pid, JSON.stringify(Object.keys(Module._cache))));
    `,
  });
  return {
    env: { NODE_OPTIONS: `--import=${pathToFileURL(join(folder, 'tell.mjs')).href}`, TELL_IN: folder },
    packagesOf(pid) {
      const files = JSON.parse(readFileSync(join(folder, String(pid)), 'utf8')) as string[];
      return [...new Set(files.flatMap((file) => /@opentelemetry[\\/]([^\\/]+)/.exec(file)?.[1] ?? []))].sort();
    },
  };
}

t.test('without a collector nothing of the SDK is loaded', async (t) => {
  const { env: tell, packagesOf } = telling(t);
  const loaded = async (args: readonly string[], more: Record<string, string> = {}): Promise<string[]> => {
    const { url, child, ended } = await startService(t, args, 'builtin', { env: { ...tell, ...more } });
    await ask(url, 'Hello');
    child.kill('SIGTERM');
    t.equal((await ended).code, 0);
    return packagesOf(child.pid!);
  };
  t.strictSame(await loaded([]), ['api']);
  const collector = await startCollector(t);
  t.strictSame(await loaded([], { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SDK_DISABLED: 'true' }), ['api']);
  t.equal(collector.spans.length, 0);
  const byVariable = await loaded([], { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SERVICE_NAME: 'mine' });
  t.ok(['api', 'exporter-trace-otlp-http', 'sdk-trace-node'].every((name) => byVariable.includes(name)), 'it is where one is named');
  t.match(collector.spans.find(({ name }) => name === 'chat builtin'), { resource: { 'service.name': 'mine' } });
});

t.test('a missing SDK is an error of --traces, and a warning if a variable asks for it', async (t) => {
  const folder = ownFolder(t);
  mkdirSync(join(folder, 'node_modules', '@opentelemetry'), { recursive: true });
  for (const name of ['dist', 'package.json', 'builtin', 'vendor/llama.cpp.json']) cpSync(join(root, name), join(folder, name), { recursive: true });
  const packages = [...readdirSync(join(root, 'node_modules')).filter((name) => name !== '@opentelemetry'), join('@opentelemetry', 'api')];
  for (const name of packages) symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name), 'junction');
  const env = { RECUA_ADDON: join(root, 'build', 'Release', 'recua.node') };
  const main = join(folder, 'dist', 'cli', 'main.js');
  const { code, stderr } = await recua(['api', 'builtin', '--port', '0', '--traces', 'http://127.0.0.1:4318'], '', { env, main });
  t.equal(code, 2);
  t.match(stderr, /Traces need OpenTelemetry's SDK.*`npm install -g @opentelemetry\/sdk-trace-node@2 @opentelemetry\/exporter-trace-otlp-http@0\.223 @opentelemetry\/resources@2`/);
  const { url, stderr: said } = await startService(t, [], 'builtin', { env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }, main });
  t.match(said(), /Warning: No traces are sent, though OTEL_EXPORTER_OTLP_ENDPOINT asks for them: Traces need OpenTelemetry's SDK/);
  await ask(url, 'Hello');
});

t.test('an invalid address is refused at once', async (t) => {
  for (const [given, why] of [['4318', /Expected --traces with the address of a collector/], ['ftp://x', /Expected --traces with the address/], ['http://ann:secret@127.0.0.1', /without a name and a password.*OTEL_EXPORTER_OTLP_HEADERS/]] as const) {
    const { code, stderr } = await recua(['api', 'builtin', '--port', '0', '--traces', given]);
    t.equal(code, 2, given);
    t.match(stderr, why);
  }
  const { stderr } = await startService(t, [], 'builtin', { env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' } });
  t.match(stderr(), /Warning: No traces are sent.*over HTTP, got one for gRPC/);
});
