import t from 'tap';
import { FakeHub, modelBytes, type FakeRepo } from '../../models/fake-hub.js';
import { recua, start } from '../recua.js';

const repos: FakeRepo[] = ['owner/tiny-GGUF', 'owner/other', 'gates/Tiny-2-GGUF'].map((name, at) => ({
  name, files: [{ path: 'tiny-Q4_K_M.gguf', bytes: modelBytes(1_000) }], ...(at === 2 ? { privacy: 'gated' as const } : {}),
}));

t.test('search lists matching repositories, and what to do next', async (t) => {
  const hub = await FakeHub.start(t, repos);
  const env = hub.environment(t.testdir());
  const found = await recua(['search', 'tiny'], '', { env });
  t.match(found, { code: 0, stderr: 'Try: recua pull owner/tiny-GGUF\n' });
  t.equal(found.stdout, [
    'REPOSITORY         DOWNLOADS  LIKES  ACCESS',
    'owner/tiny-GGUF    1,000      0      open',
    'gates/Tiny-2-GGUF  999        1      license first',
    '',
  ].join('\n'));
  const json = await recua(['search', 'tiny', '--limit', '1', '--json'], '', { env });
  t.strictSame(JSON.parse(json.stdout), { query: 'tiny', repositories: [{ repository: 'owner/tiny-GGUF', downloads: 1_000, likes: 0, gated: false }] });
  t.match(await recua(['search', 'no', 'such'], '', { env }), { code: 0, stdout: '', stderr: /has GGUF files and matches "no such"/ });
});

t.test('search leaves out entries that are not repositories', async (t) => {
  const hub = await FakeHub.start(t, repos);
  hub.onApi = (_request, response) => {
    response.end(JSON.stringify([null, 7, {}, { id: 'a/b/c' }, { id: 'owner/tiny-GGUF', downloads: null, likes: 'many' }]));
    return true;
  };
  const { code, stdout } = await recua(['search', 'tiny', '--json'], '', { env: hub.environment(t.testdir()) });
  t.equal(code, 0);
  t.strictSame(JSON.parse(stdout).repositories, [{ repository: 'owner/tiny-GGUF', downloads: 0, likes: 0, gated: false }]);
});

t.test('search reports what is missing: words, a sane limit, the hub', async (t) => {
  const hub = await FakeHub.start(t, repos);
  const env = hub.environment(t.testdir());
  t.match(await recua(['search'], '', { env }), { code: 2, stderr: /Expected words to search for/ });
  t.match(await recua(['search', 'tiny', '--limit', '0'], '', { env }), { code: 2, stderr: /--limit/ });
  t.match(await recua(['search', 'tiny'], '', { env: { ...env, HF_HUB_OFFLINE: '1' } }), { code: 1, stderr: /offline/i });
  t.match(await recua(['search', 'tiny'], '', { env: { ...env, HF_ENDPOINT: 'http://127.0.0.1:1' } }), { code: 1, stderr: /127\.0\.0\.1:1/ });
});

t.test('search says that the hub makes it wait, and Ctrl-C stops it', async (t) => {
  const hub = await FakeHub.start(t, repos);
  hub.onApi = (_request, response) => {
    response.writeHead(429, { 'Retry-After': '50' }).end();
    return true;
  };
  const running = start(['search', 'tiny'], { env: hub.environment(t.testdir()) });
  await running.saw(/wants fewer requests \(429\); trying again in 50 s\./);
  running.child.kill('SIGINT');
  const { code, stderr } = await running.ended;
  t.equal(code, 130);
  t.match(stderr, /Stopped\.\n$/);
  t.notMatch(stderr, /\n {4}at /, 'no stack');
});
