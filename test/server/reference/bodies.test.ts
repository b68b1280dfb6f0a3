// Bodies drawn from the schemas are answered or refused as documented, and readers read nothing
// that the document does not list. Over the built-in model.
import t from 'tap';
import fc from 'fast-check';
import { startLocalEngine } from '#recua/engine/in-process/local.js';
import { builtinPath } from '#recua/models/store.js';
import { engineDefaults } from '#recua/settings/config.js';
import { watchAsks } from '#recua/request/fields.js';
import { describeApi } from '#recua/server/app.js';
import { placeOf } from '#recua/server/reference/asks.js';
import { post, startApp } from '../app-under-test.js';
import { seed } from '../strange.js';
import { arbitrary } from './body-arbitraries.js';
import { allBodies, placesIn, type Json } from './schemas.js';

const { document } = describeApi();
const bodies = new Map(allBodies(document).map((body) => [body.name, body]));

/** All routes that take JSON, by their own paths. */
const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).flatMap(([method, { requestBody, responses, description }]) => {
    const name = (requestBody?.content['application/json']?.schema.$ref ?? '').replace(/^.*\//, '');
    return name === '' || description?.startsWith('The same as') ? [] : [{ path, method, responses, body: bodies.get(name)! }];
  }),
);

t.test(`bodies of the schemas are answered, or refused as documented (seed ${seed})`, async (t) => {
  const engine = startLocalEngine({
    ...engineDefaults,
    modelPath: builtinPath,
    threads: 1,
    threadsBatch: 1,
    parallel: 4,
    contextSize: 256,
  });
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

/** A documented field, or one inside a field whose description covers its contents. */
function isTold(place: string, places: ReadonlySet<string>): boolean {
  if (place === '' || place.startsWith('?') || places.has(place)) return true;
  const holder = place.replace(/(\[\]|\.[^.[\]]*)$/, '');
  return holder !== place && (place.endsWith('[]') || isLeaf(holder, places)) && isTold(holder, places);
}

function isLeaf(place: string, places: ReadonlySet<string>): boolean {
  return ![...places].some((other) => other.startsWith(`${place}.`) || other.startsWith(`${place}[].`));
}
