// Bodies that are drawn from the schemas are answered or refused as the document says, and readers
// ask for nothing that it does not tell. Over the embedded model.
import t from 'tap';
import fc from 'fast-check';
import { startLocalEngine } from '#recua/engine/in-process/local.js';
import { builtinPath } from '#recua/models/store.js';
import { engineDefaults } from '#recua/settings/config.js';
import { watchAsks } from '#recua/request/fields.js';
import { describeApi } from '#recua/server/app.js';
import { placeOf } from '#recua/server/reference/asks.js';
import type { Schema } from '#recua/server/reference/schema.js';
import { post, startApp } from '../app-under-test.js';
import { seed } from '../strange.js';
import { allBodies, placesIn, resolve, type Json } from './schemas.js';

const { document } = describeApi();
const bodies = new Map(allBodies(document).map((body) => [body.name, body]));

/** What answers are as long, or as many, as. */
const small: Record<string, number> = { max_tokens: 3, max_completion_tokens: 3, n_predict: 3, num_predict: 3, max_output_tokens: 3, n: 2, n_cmpl: 2, best_of: 2 };

function arbitrary(schema: Schema, key = ''): fc.Arbitrary<unknown> {
  const own = resolve(schema);
  if (key === 'model') return fc.constantFrom('default', 'nobody');
  // Of a schema or of a value any JSON is a case; a few are enough.
  if (Array.isArray(own['anyOf'])) return fc.oneof(...(own['anyOf'] as Schema[]).map((one) => arbitrary(one)));
  if ('const' in own) return fc.constant(own['const']);
  if (Array.isArray(own['enum'])) return fc.constantFrom(...own['enum'] as unknown[]);
  return fc.oneof(...([own['type'] ?? 'any'].flat() as string[]).map((type) => typed(type, own, key)));
}

function typed(type: string, own: Schema, key: string): fc.Arbitrary<unknown> {
  const { minimum = -1_000, maximum = 1_000, minLength = 0, maxLength = 12, minItems = 0, maxItems = 3 } = own as Record<string, number>;
  switch (type) {
    case 'integer': return fc.integer({ min: key in small ? 1 : minimum, max: Math.min(maximum, small[key] ?? maximum) });
    case 'number': return fc.double({ min: minimum, max: maximum, noNaN: true, noDefaultInfinity: true });
    case 'string': return fc.string({ minLength, maxLength: Math.min(maxLength, 12) });
    case 'boolean': return fc.boolean();
    case 'null': return fc.constant(null);
    case 'array': return fc.array(own['items'] ? arbitrary(own['items'] as Schema) : fc.constant('a'), { minLength: minItems, maxLength: Math.max(minItems, Math.min(maxItems, 3)) });
    case 'object': return own['properties'] ? record(own) : fc.dictionary(fc.string({ maxLength: 5 }), fc.oneof(fc.integer({ min: 0, max: 9 }), fc.string({ maxLength: 3 })), { maxKeys: 2 });
    default: return fc.jsonValue({ maxDepth: 2 });
  }
}

/** A few of the fields that may be absent. */
function record(own: Schema): fc.Arbitrary<Json> {
  const { properties, required = [] } = own as { properties: Record<string, Schema>; required?: string[] };
  const optional = Object.keys(properties).filter((name) => !required.includes(name));
  return fc.subarray(optional, { maxLength: Math.min(optional.length, 3) }).chain((some) => (
    fc.record(Object.fromEntries([...required, ...some].map((name) => [name, arbitrary(properties[name], name)])))
  ));
}

/** All routes that take JSON, by their own paths. */
const routes = Object.entries(document.paths).flatMap(([path, methods]) => Object.entries(methods).flatMap(([method, { requestBody, responses, description }]) => {
  const name = (requestBody?.content['application/json']?.schema.$ref ?? '').replace(/^.*\//, '');
  return name === '' || description?.startsWith('The same as') ? [] : [{ path, method, responses, body: bodies.get(name)! }];
}));

t.test(`bodies of the schemas are answered, or refused as the document says (seed ${seed})`, async (t) => {
  const engine = startLocalEngine({ ...engineDefaults, modelPath: builtinPath, threads: 1, threadsBatch: 1, parallel: 4, contextSize: 256 });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const { url } = await startApp(t, { maxTokens: 3, slotSavePath: t.testdir({}) }, engine);
  t.ok(routes.length > 20, 'the routes were found');
  for (const { path: pattern, method, responses, body } of routes) {
    const path = pattern.replace('/slots/{id}', '/slots/0?action=save');
    const places = new Set(placesIn(body.schema).map(({ place }) => place));
    const unknown = new Set<string>();
    const statuses: Record<number, number> = {};
    const one = async (sent: unknown, isExample = false): Promise<void> => {
      watchAsks((param) => {
        const place = placeOf(param);
        if (!isTold(place, places)) unknown.add(place);
      });
      const res = method === 'post' ? await post(url + path, sent) : await fetch(url + path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(sent) });
      const text = await res.text();
      watchAsks(undefined);
      statuses[res.status] = (statuses[res.status] ?? 0) + 1;
      if (res.status === 200) return;
      const parsed = JSON.parse(text) as Json;
      const code = parsed['error'].code ?? parsed['code'];
      const documented = responses[res.status]?.['x-error-codes']?.includes(code);
      if (!documented || res.status >= 500 || isExample && code === 'invalid_type') throw new Error(`${path}: ${res.status} ${text.slice(0, 300)} for ${JSON.stringify(sent).slice(0, 600)}`);
    };
    for (const example of body.examples) await one(Object.fromEntries(Object.entries(example).map(([key, value]) => [key, value])), true);
    await fc.assert(fc.asyncProperty(arbitrary(body.schema), (sent) => one(sent)), { seed, numRuns: 40 });
    t.strictSame([...unknown], [], `${path}: readers ask for what the document tells`);
    t.comment(`${path} ${JSON.stringify(statuses)}`);
  }
});

/** A place that is told, or inside one whose words tell what is in it. */
function isTold(place: string, places: ReadonlySet<string>): boolean {
  if (place === '' || place.startsWith('?') || places.has(place)) return true;
  const holder = place.replace(/(\[\]|\.[^.[\]]*)$/, '');
  return holder !== place && (place.endsWith('[]') || isLeaf(holder, places)) && isTold(holder, places);
}

function isLeaf(place: string, places: ReadonlySet<string>): boolean {
  return ![...places].some((other) => other.startsWith(`${place}.`) || other.startsWith(`${place}[].`));
}
