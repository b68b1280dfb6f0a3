// The reference is complete: each route, each field, each default. The document is valid OpenAPI.
import t from 'tap';
import { readFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import { makeConfig } from '#recua/settings/config.js';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { RecuaError } from '#recua/errors.js';
import { Fields, watchAsks, type Ask } from '#recua/request/fields.js';
import { createApp, describeApi } from '#recua/server/app.js';
import type { Schema } from '#recua/server/reference/schema.js';
import { openApiPath } from '#recua/server/reference/document.js';
import { markdown } from '#recua/server/reference/markdown.js';
import { post, served, startApp } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';
import { allBodies, fieldsOf, placesIn, resolve, validatorOf } from './schemas.js';

const { document, problems } = describeApi();
const methods = ['get', 'post', 'delete', 'put', 'patch'];

t.test('each field has a description, and each description a field', (t) => {
  t.strictSame(problems, []);
  t.end();
});

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)));
  t.equal(valid, true, JSON.stringify(errors)?.slice(0, 1_000));
  const ids = Object.values(document.paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
  t.equal(new Set(ids).size, ids.length, 'each operation has a name of its own');
});

t.test('the document has each route of the app, and nothing else', (t) => {
  const app = createApp({ pool: singleModel(new FakeEngine(), served), config: makeConfig({}) });
  const routes = (app.router.stack as { route?: { path: string[]; methods: Record<string, boolean> } }[]).flatMap(({ route }) => (
    route ? [route.path].flat().flatMap((path) => methods.filter((method) => route.methods[method]).map((method) => `${method} ${openApiPath(path)}`)) : []
  ));
  const told = Object.entries(document.paths).flatMap(([path, all]) => Object.keys(all).map((method) => `${method} ${path}`));
  t.strictSame(told.sort(), routes.sort());
  t.ok(routes.length > 60, 'the routes were found at all');
  t.end();
});

t.test('each path of the document is served', async (t) => {
  const { url } = await startApp(t);
  for (const [path, all] of Object.entries(document.paths)) {
    for (const method of Object.keys(all)) {
      const res = await fetch(url + path.replace(/\{\w+\}/g, 'x'), { method: method.toUpperCase() });
      if (path === '/openapi.json') continue;
      if (path === '/models/sse') {
        t.equal(res.status, 200);
        await res.body?.cancel();
        continue;
      }
      t.notMatch(await res.text(), /route_not_found|method_not_allowed/, `${method} ${path}`);
    }
  }
});

t.test('GET /openapi.json writes the document once for all who ask', async (t) => {
  const { url } = await startApp(t);
  const { stringify } = JSON;
  t.teardown(() => (JSON.stringify = stringify));
  let written = 0;
  JSON.stringify = ((...given: Parameters<typeof stringify>) => {
    const text = stringify(...given);
    if (text?.startsWith('{"openapi"')) written++;
    return text;
  }) as typeof stringify;
  const replies = await Promise.all(Array.from({ length: 20 }, () => fetch(`${url}/openapi.json`)));
  t.strictSame(replies.map(({ headers }) => headers.get('content-type')), Array(20).fill('application/json; charset=utf-8'));
  await Promise.all(replies.map((reply) => reply.json()));
  t.equal(written, 1);
});

t.test('GET /openapi.json is the document, with the version of the package', async (t) => {
  const { url } = await startApp(t);
  t.strictSame(await (await fetch(`${url}/openapi.json`)).json(), JSON.parse(JSON.stringify(document)));
  t.equal(document.info.version, JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version);
});

t.test('query strings are read as documented', async (t) => {
  const { url } = await startApp(t);
  let found = 0;
  for (const [path, { get }] of Object.entries(document.paths)) {
    if (!get || path === '/models/sse') continue;
    const asked: [string, Ask][] = [];
    watchAsks((param, ask) => void (param.startsWith('?') && asked.push([param.slice(1), ask])));
    await (await fetch(url + path.replace(/\{\w+\}/g, 'x'))).text();
    watchAsks(undefined);
    for (const [name, ask] of asked) {
      const { schema = {} } = get.parameters?.find((parameter) => parameter.in === 'query' && parameter.name === name) ?? {};
      const kind = ask.kind === 'word' ? { type: 'string', enum: ask.words } : 'range' in ask ? { type: ask.kind, minimum: ask.range.min, maximum: ask.range.max } : { type: ask.kind };
      t.match(schema, kind, `${path}?${name}=`);
      found++;
    }
  }
  t.ok(found > 10);
});

t.test('docs/http.md matches the document', (t) => {
  const text = readFileSync(new URL('../../../docs/http.md', import.meta.url), 'utf8');
  t.equal(text === markdown(document), true, 'npm run docs writes docs/http.md anew');
  const anchors = new Set([...text.matchAll(/^#+ (.*)$/gm)].map(([, title]) => title!.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-')));
  t.strictSame([...text.matchAll(/\]\(#([^)]*)\)/g)].map(([, anchor]) => anchor!).filter((anchor) => !anchors.has(anchor)), [], 'links lead somewhere');
  const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
  const links = [...readme.matchAll(/docs\/http\.md#([^)]*)\)/g)].map(([, anchor]) => anchor!);
  t.ok(links.length > 10);
  t.strictSame(links.filter((anchor) => !anchors.has(anchor)), [], 'and those of the README');
  t.end();
});

t.test('an explicit default is the same as an absent field', (t) => {
  for (const { name, read, examples, schema } of allBodies(document)) {
    const untried = new Set(placesIn(schema).filter(({ field }) => field['default'] !== undefined).map(({ place }) => place));
    const reading = (body: object): string | undefined => {
      try {
        return JSON.stringify(read(Fields.of(body)), (key, value: unknown) => (key === 'echo' ? undefined : value)).replace(drawn, '');
      } catch {
        return undefined;
      }
    };
    for (const example of examples) {
      for (const { place, holder, key, field, body } of fieldsOf(schema, example)) {
        if (field['default'] === undefined) continue;
        const { [key]: before } = holder;
        delete holder[key];
        const without = reading(body);
        holder[key] = JSON.parse(JSON.stringify(field['default']));
        const withIt = reading(body);
        if (before === undefined) delete holder[key];
        else holder[key] = before;
        if (without === undefined || withIt === undefined) continue;
        untried.delete(place);
        if (withIt !== without) t.fail(`${name}: ${place} says another default`);
      }
    }
    t.strictSame([...untried], [], `${name}: each default was tried`);
  }
  t.end();
});

/** Ids and times that are generated while a body is read. */
const drawn = /[0-9a-f]{48}|call_[0-9a-f]{24}|"(created|expires)_at":\d+/g;

/** One value of each kind, and values out of range for numbers, texts and lists of that field. */
function valuesFor(field: Schema): unknown[] {
  const all = [field, ...(field['anyOf'] as Schema[] | undefined ?? [])].map(resolve) as { minimum?: number; maximum?: number; maxItems?: number; maxLength?: number }[];
  return [true, 'zzz', '', 1.5, -1e9, 1e300, {}, [], [[]], [{}], [true], { a: 1 }, ...all.flatMap(({ minimum, maximum, maxItems, maxLength }) => [
    ...(minimum === undefined ? [] : [minimum - 1]), ...(maximum === undefined ? [] : [maximum + 1]),
    ...(maxItems === undefined ? [] : [Array.from({ length: maxItems + 1 }, () => 'x')]), ...(maxLength === undefined ? [] : ['x'.repeat(maxLength + 1)]),
  ])];
}

t.test('a value that the schema does not allow is refused by the reader, and named', (t) => {
  let tried = 0;
  for (const { name, read, examples, schema } of allBodies(document)) {
    const accepts = new Map<string, (value: unknown) => boolean>();
    /** By place and value: whether any reader refused it. */
    const refused = new Map<string, boolean>();
    for (const example of examples) {
      for (const { place, holder, key, field, body } of fieldsOf(schema, example)) {
        let accept = accepts.get(place);
        if (!accept) accepts.set(place, (accept = validatorOf(document, field)));
        const before = Object.getOwnPropertyDescriptor(holder, key);
        for (const value of valuesFor(field)) {
          const what = `${name} ${place}: ${JSON.stringify(value).slice(0, 40)}`;
          if (refused.get(what) || accept(value)) continue;
          holder[key] = value;
          refused.set(what, isRefused(read, body, place));
          tried++;
        }
        if (before) Object.defineProperty(holder, key, before);
        else delete holder[key];
      }
    }
    t.strictSame([...refused].filter(([, was]) => !was).map(([what]) => what), [], name);
  }
  t.ok(tried > 1_000, `${tried} were tried`);
  t.end();
});

function isRefused(read: (body: Fields) => unknown, body: object, place: string): boolean {
  try {
    read(Fields.of(body));
    return false;
  } catch (thrown) {
    if (!(thrown instanceof RecuaError) || thrown.status !== 400) throw thrown;
    // The field itself, a part of it, or a field that depends on it.
    return thrown.param !== undefined && (thrown.param.replace(/\[\d+\]/g, '[]').startsWith(place) || place.startsWith(thrown.param.replace(/\[\d+\]/g, '[]')));
  }
}

t.test('over HTTP such a field is a 400 with its name, too', async (t) => {
  const { url } = await startApp(t);
  for (const [path, body, param] of [
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'a' }], top_p: 2 }, 'top_p'], ['/v1/messages', { messages: [{ role: 'nobody', content: 'a' }] }, 'messages[0].role'],
    ['/api/chat', { messages: [{ role: 'user', content: 'a' }], options: { top_k: 'a' } }, 'options.top_k'], ['/v1/responses', { input: 5 }, 'input'],
  ] as const) {
    const res = await post(url + path, body);
    t.equal(res.status, 400);
    t.match(await res.text(), `"param":"${param}"`);
  }
});
