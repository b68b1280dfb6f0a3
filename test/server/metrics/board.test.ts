// docs/grafana.json uses only metrics that the server has, and shows all of the server's own.
import t from 'tap';
import { readFileSync } from 'node:fs';
import { ServerResponse } from 'node:http';
import { hello, post, startApp, until } from '../app-under-test.js';
import { hang } from '../fake-engine.js';
import { chatPath } from '../real-app.js';
import { scrape } from './scrape.js';

interface Panel {
  id: number;
  title: string;
  type: string;
  targets?: { expr: string; legendFormat: string }[];
}

const board = JSON.parse(readFileSync(new URL('../../../docs/grafana.json', import.meta.url), 'utf8')) as {
  uid: string; panels: Panel[]; templating: { list: { name: string; query: string | { query: string } }[] };
};
const expressions = board.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const variables = board.templating.list.map(({ query }) => (typeof query === 'string' ? query : query.query));

/** The names in an expression: metrics, and the labels it selects or groups by. */
function namesIn(expr: string): { metrics: string[]; labels: string[] } {
  const metrics = expr.match(/\b(recua|process|llamacpp|vllm)[_:][\w:]+/g) ?? [];
  const selected = [...expr.matchAll(/(\w+)\s*=~?"/g)].map(([, label]) => label!);
  const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(',').map((label) => label.trim()));
  return { metrics, labels: [...selected, ...grouped] };
}

t.test('every metric and label of the board is served after a few requests', async (t) => {
  const { url, engine } = await startApp(t, { apiKey: 'secret' });
  const key = { authorization: 'Bearer secret' };
  engine.finish = { usage: { promptTokens: 9, cachedTokens: 3, completionTokens: 4, draftedTokens: 2, acceptedTokens: 1 } };
  engine.script = async function* () {
    for (const content of ['a', 'b']) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      yield { content };
    }
  };
  await (await post(url + chatPath, { ...hello, stream: true }, key)).text();
  await (await post(url + chatPath, hello)).text();
  engine.script = hang;
  const leaving = new AbortController();
  const gone = post(url + chatPath, hello, key, leaving.signal).catch(() => undefined);
  await until(() => engine.running.size === 1);
  leaving.abort();
  await gone;
  let now = await scrape(url, key);
  for (let tries = 0; now.sum('recua_cancellations_total') === 0 && tries < 400; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    now = await scrape(url, key);
  }
  const served = new Map<string, Set<string>>();
  for (const { name, labels } of now.samples) served.set(name, new Set([...served.get(name) ?? [], ...Object.keys(labels)]));
  const asked = [...expressions, ...variables].map((expr) => ({ expr, ...namesIn(expr) }));
  for (const { expr, metrics, labels } of asked) {
    for (const name of metrics) {
      t.ok(served.has(name), `${name} is served`);
      // Prometheus adds `job` itself.
      for (const label of labels.filter((one) => one !== 'job')) t.ok(served.get(name)?.has(label), `${name} has ${label}, for ${expr}`);
    }
  }
  const named = new Set(asked.flatMap(({ metrics }) => metrics.map((name) => name.replace(/_bucket$/, ''))));
  const own = [...now.types.keys()].filter((name) => name.startsWith('recua_'));
  t.strictSame(own.filter((name) => !named.has(name)), [], 'the board shows all that is the own');
});

t.test('a busy machine is not a slow reader: the time between two pieces is reported', async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* () {
    for (const content of ['a', 'b', 'c']) yield { content };
  };
  const write = ServerResponse.prototype.write;
  ServerResponse.prototype.write = function (this: ServerResponse, ...args: unknown[]) {
    for (const end = performance.now() + 8; performance.now() < end;);
    return Reflect.apply(write, this, args) as boolean;
  } as typeof write;
  t.teardown(() => void (ServerResponse.prototype.write = write));
  await (await post(url + chatPath, { ...hello, stream: true })).text();
  t.equal((await scrape(url)).sum('recua_inter_token_seconds_count'), 2);
});

t.test('docs/watching.md names every metric, and no other', async (t) => {
  const { types } = await scrape((await startApp(t)).url);
  const page = readFileSync(new URL('../../../docs/watching.md', import.meta.url), 'utf8');
  const own = new Set(page.match(/\b(recua|process)_\w+/g)!);
  t.strictSame([...own].sort(), [...types.keys()].filter((name) => /^(recua|process)_/.test(name)).sort());
  for (const prefix of ['llamacpp:', 'vllm:']) {
    const [, list = ''] = new RegExp(`^\\| \`${prefix}\` \\| (.*) \\|$`, 'm').exec(page) ?? [];
    const named = [...list.matchAll(/`(\w+)(…)?`/g)].filter(([, , rest]) => rest === undefined).map(([, name]) => prefix + name!);
    const served = [...types.keys()].filter((name) => name.startsWith(prefix) && !name.startsWith('vllm:gpu_prefix_cache_'));
    t.strictSame(named.sort(), served.sort());
  }
});

t.test('each panel has an id of its own, a title and something to show', (t) => {
  const panels = board.panels.filter(({ type }) => type !== 'row');
  t.ok(panels.length > 15);
  t.equal(new Set(board.panels.map(({ id }) => id)).size, board.panels.length);
  for (const { title, targets = [] } of panels) t.ok(title !== '' && targets.length > 0 && targets.every(({ expr, legendFormat }) => expr !== '' && legendFormat !== ''), title);
  t.end();
});
