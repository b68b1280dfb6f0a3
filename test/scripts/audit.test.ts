import t, { type Test } from 'tap';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as { packages: Record<string, { version: string }> };

/** A registry that answers audits; `asked` is what it received. */
async function audited(
  t: Test,
  status: number,
  reply: object,
): Promise<{ code: number | null; said: string; asked: Record<string, string[]> }> {
  let asked: Record<string, string[]> = {};
  const registry = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .on('end', () => {
        const body = Buffer.concat(chunks);
        if (req.url?.endsWith('/advisories/bulk'))
          asked = JSON.parse(String(req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)) as Record<string, string[]>;
        res
          .writeHead(req.url?.endsWith('/advisories/bulk') ? status : 404, { 'content-type': 'application/json' })
          .end(JSON.stringify(reply));
      });
  }).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  t.teardown(() => registry.close());
  const child = spawn(
    process.execPath,
    [join(root, 'scripts', 'audit.mjs'), '--registry', `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`],
    { cwd: root, stdio: 'pipe', env: { ...process.env, npm_config_fetch_retries: '0' } },
  );
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, said, asked };
}

t.test('an audit covers what Recua runs with, and nothing that only development needs', async (t) => {
  const { code, said, asked } = await audited(t, 200, {});
  t.equal(code, 0, said);
  t.match(said, /knows of no hole in the \d+ packages that Recua runs with\./);
  t.strictSame(asked['express'], [lock.packages['node_modules/express']!.version]);
  t.notOk('typescript' in asked || 'eslint' in asked);
});

t.test('a vulnerability ends it, with the package and where to read about it', async (t) => {
  const advisory = { id: 1, url: 'https://example.com/advisory', title: 'Anybody gets in', severity: 'moderate', vulnerable_versions: '<99.0.0', cwe: [], cvss: { score: 5, vectorString: null } };
  const { code, said } = await audited(t, 200, { express: [advisory] });
  t.equal(code, 1);
  t.match(said, /express <99\.0\.0: moderate, Anybody gets in \(https:\/\/example\.com\/advisory\)/);
});

t.test('a registry without audits is not a success', async (t) => {
  const { code, said } = await audited(t, 405, {});
  t.equal(code, 2);
  t.match(said, /Nothing was checked: http:\/\/127\.0\.0\.1:\d+\/ offers no audits \(405 .*\)\.\s+Ask one that does: npm run audit -- --registry URL/);
});
