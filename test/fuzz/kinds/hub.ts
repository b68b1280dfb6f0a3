// Replies of a model hub, or of a host in between: descriptions, listings, file locations, and the
// headers of each. No reply leads outside the store, and none is waited for forever.
import fc from 'fast-check';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { groupModels } from '#recua/models/hub/gguf-files.js';
import { Hub, type HubFile } from '#recua/models/hub/hub.js';
import { recommend } from '#recua/models/hub/recommendation.js';
import { retryPolicy } from '#recua/models/hub/retry.js';
import { edited, editedText, edits, jsonOf, strangeValues, textEdits, unchanged, type Edit, type TextEdit } from '../edits.js';
import { kind, outcomeOf, type Outcome } from '../kind.js';

interface Case {
  ask: 'search' | 'commit' | 'list' | 'locate';
  edits: Edit[];
  textEdits: TextEdit[];
  status: number;
  headers: Record<string, string>;
  /** The connection is cut after this many bytes. */
  cut: number;
}

const commit = 'a'.repeat(40);
const file = (path: string, size = 100): object => ({ type: 'file', path, size, oid: '0'.repeat(40), lfs: { oid: 'b'.repeat(64), size, pointerSize: 134 } });
const replies = {
  search: [{ id: 'owner/model', downloads: 5, likes: 1, gated: false }, { id: 'owner/other', downloads: 5, likes: 1, gated: 'manual' }],
  commit: { sha: commit },
  list: [file('m-Q4_K_M.gguf'), file('big/m-00001-of-00002.gguf'), file('big/m-00002-of-00002.gguf'), file('mmproj.gguf'), { type: 'directory', path: 'x' }, { type: 'file', path: 'README.md', size: 5, oid: 'c'.repeat(40) }],
  locate: 'x',
};
const paths = fc.constantFrom('../../x', '/etc/passwd', 'a\\b', 'C:/x', 'a//b', './a', 'a/../b', 'con', 'a\u0000b', 'é\u0301.gguf', 'x'.repeat(500), 'm-00001-of-99999.gguf', 'm-00000-of-00000.gguf', 'm-00003-of-00002.gguf', '-x.gguf', 'a\nb.gguf', '\u202e.gguf', 'm-Q4_K_M.gguf', '.gguf', 'owner/../x', 'owner/model/x');
const headers = fc.dictionary(fc.constantFrom('link', 'location', 'x-linked-size', 'x-linked-etag', 'etag', 'x-error-code', 'x-error-message', 'retry-after', 'content-encoding', 'content-type', 'x-repo-commit'), fc.oneof(
  fc.constantFrom('<?page=2>; rel="next"', '<http://example.com/x>; rel="next"', '<file:///etc/passwd>; rel="next"', '<%>; rel=next', '<<<<; rel="next"', 'HERE/x', 'file:///etc/passwd', 'ftp://x/', '//', 'http://[', '99999999999999999999', '-1', '1e9', 'NaN', '"x"', 'W/"x"', 'GatedRepo', 'RepoNotFound', 'RevisionNotFound', 'EntryNotFound', '0', 'Wed, 21 Oct 2115 07:28:00 GMT', 'gzip', '../../x', `"${'b'.repeat(64)}"`),
  fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 30 })), { maxKeys: 3 });

const isSafe = ({ path, sizeBytes, etag }: HubFile): boolean => !/^[/\\]|(^|[/\\])\.\.?([/\\]|$)|[\u0000-\u001f\\]|^[A-Za-z]:/.test(path) && path !== '' && Number.isSafeInteger(sizeBytes) && sizeBytes >= 0 && /^[0-9a-f]{40,64}$/.test(etag);

export default kind<Case>({
  cases: fc.record({
    ask: fc.constantFrom('search', 'commit', 'list', 'list', 'list', 'locate'),
    edits: fc.oneof({ weight: 1, arbitrary: unchanged }, { weight: 4, arbitrary: edits(fc.oneof(paths, strangeValues), 5) }),
    textEdits: fc.oneof({ weight: 4, arbitrary: unchanged }, textEdits()),
    status: fc.oneof(
      { weight: 12, arbitrary: fc.constant(200) },
      fc.constantFrom(204, 206, 301, 302, 307, 400, 401, 403, 404, 407, 416, 429, 500, 503),
    ),
    headers: fc.oneof({ weight: 1, arbitrary: fc.constant<Record<string, string>>({}) }, headers),
    cut: fc.oneof({ weight: 12, arbitrary: fc.constant(-1) }, fc.nat(300)),
  }),
  few: 200,
  mostMs: 10_000,
  mostMib: 500,
  async open() {
    let now: Case;
    let asked = 0;
    const server = createServer((req, res) => {
      const { ask, status, headers: sent, cut } = now;
      const { 'x-none': _, ...all } = sent;
      const here = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, value.replace('HERE', url)]));
      // Redirects in a circle for a while.
      if (++asked > 6) delete here['link'];
      const body = Buffer.from(editedText(jsonOf(edited(replies[ask], now.edits)), now.textEdits));
      res.writeHead(status, here);
      if (cut < 0) return void res.end(req.method === 'HEAD' ? undefined : body);
      res.write(body.subarray(0, cut));
      setImmediate(() => res.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const hub = new Hub({
      endpoint: url,
      token: 'hf_x',
      offline: false,
      retry: { ...retryPolicy({}), firstDelayMs: 0, longestDelayMs: 0, longestRetryAfterMs: 0, stallMs: 1_000 },
    });
    const answer = async (ask: Case['ask']): Promise<void> => {
      switch (ask) {
        case 'search':
          return void (await hub.search('x'));
        case 'commit': {
          const found = await hub.commitOf('owner/model', 'main');
          if (!/^[0-9a-f]{40}$/.test(found)) throw new Error(`A commit is ${found}.`);
          return;
        }
        case 'list': {
          const { files } = await hub.list('owner/model', commit);
          const wrong = files.find((one) => !isSafe(one));
          if (wrong) throw new Error(`A file is ${JSON.stringify(wrong)}.`);
          recommend(groupModels(files), 2 ** 33);
          return;
        }
        case 'locate': {
          const { url: place, token } = await hub.locate('owner/model', commit, 'm.gguf');
          if (!/^https?:$/.test(place.protocol) || (token !== undefined && place.origin !== url))
            throw new Error(`A file lies at ${place.href}, with ${token ? 'the' : 'no'} token.`);
        }
      }
    };
    const take = async (one: Case): Promise<Outcome> => {
      now = one;
      asked = 0;
      try {
        await answer(one.ask);
        return 'accepted';
      } catch (thrown) {
        return outcomeOf(thrown, (code) => /^(hub_|repository_|revision_|license_|download_|invalid_name)/.test(code));
      }
    };
    return {
      take,
      async close() {
        if ((await take({ ask: 'list', edits: [], textEdits: [], status: 200, headers: {}, cut: -1 })) !== 'accepted')
          throw new Error('A sound listing is not read.');
        server.close();
        server.closeAllConnections();
      },
    };
  },
});
