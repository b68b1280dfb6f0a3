import t from 'tap';
import { hubEndpoint, isHubName, readRepositoryName, tryRepositoryName } from '#recua/models/names/repository-name.js';

t.test('a repository may be named in all the usual ways', (t) => {
  for (const [given, repo, inside, revision] of [
    ['owner/repo', 'owner/repo'],
    ['gpt2', 'gpt2'],
    ['owner/repo:Q4_K_M', 'owner/repo', 'Q4_K_M'],
    ['owner/repo@v1', 'owner/repo', undefined, 'v1'],
    ['owner/repo@refs/pr/1:Q8_0', 'owner/repo', 'Q8_0', 'refs/pr/1'],
    ['owner/repo/sub/m.gguf', 'owner/repo', 'sub/m.gguf'],
    ['hf:owner/repo:Q4_0', 'owner/repo', 'Q4_0'],
    ['hf://owner/repo', 'owner/repo'],
    ['hf.co/owner/repo:Q4_0', 'owner/repo', 'Q4_0'],
    ['HF.co/owner/repo', 'owner/repo'],
    ['huggingface.co/owner/repo', 'owner/repo'],
    ['https://huggingface.co/owner/repo', 'owner/repo'],
    ['https://huggingface.co/owner/repo/', 'owner/repo'],
    ['https://huggingface.co/owner/repo/tree/main', 'owner/repo', undefined, 'main'],
    ['https://huggingface.co/owner/repo/tree/dev/sub', 'owner/repo', undefined, 'dev'],
    ['https://huggingface.co/owner/repo/blob/main/sub/m.gguf', 'owner/repo', 'sub/m.gguf', 'main'],
    ['https://huggingface.co/owner/repo/resolve/refs%2Fpr%2F1/a%20b.gguf?download=true', 'owner/repo', 'a b.gguf', 'refs/pr/1'],
    ['https://hf.co/owner/repo', 'owner/repo'],
  ] as const) {
    const file = inside?.endsWith('.gguf') ? inside : undefined;
    t.strictSame(readRepositoryName(given), { repo, revision, word: file === undefined ? inside : undefined, file }, given);
  }
  t.match(readRepositoryName('owner/repo:sub/m.gguf'), { word: 'sub/m.gguf', file: undefined });
  t.strictSame(readRepositoryName('https://mirror.example/models/owner/repo', 'https://mirror.example/models'), { repo: 'owner/repo', word: undefined, file: undefined, revision: undefined });
  t.end();
});

t.test('a name that could leave the store or belongs to another hub is refused', (t) => {
  for (const given of ['', '/', '../x', 'a/..', 'owner/repo:../../x', 'owner/repo@../x', 'owner/repo/../../x', 'a//b', 'owner/re--po', 'owner/re po', '.hidden/x', 'owner/repo\0',
    'https://example.com/owner/repo', 'https://huggingface.co/owner/repo/resolve/main/%2e%2e%2fx', 'https://huggingface.co/owner/repo/resolve/%E0%A4%A/x',
    'owner/repo:C:\\x', 'hf:', 'https://']) {
    t.throws(() => readRepositoryName(given), { code: 'invalid_name' }, given);
  }
  t.end();
});

t.test('every spelling of a hub model is understood where a path may stand, too', (t) => {
  const whole = { repo: 'o/r', revision: undefined, word: undefined, file: undefined };
  for (const prefix of ['', 'hf:', 'hf://', 'hf.co/', 'huggingface.co/', 'https://huggingface.co/', 'https://hf.co/', 'http://huggingface.co/', 'https://www.huggingface.co/', 'HTTPS://HuggingFace.co/']) {
    t.strictSame(tryRepositoryName(`${prefix}o/r`), whole, prefix);
    t.strictSame(tryRepositoryName(`${prefix}o/r:q4_k_m`), { ...whole, word: 'q4_k_m' }, prefix);
    t.strictSame(tryRepositoryName(`${prefix}o/r@v1:q4_k_m`), { ...whole, word: 'q4_k_m', revision: 'v1' }, prefix);
    t.strictSame(tryRepositoryName(`${prefix}o/r/sub/m.gguf`), { ...whole, file: 'sub/m.gguf' }, prefix);
  }
  t.strictSame(tryRepositoryName('gpt2'), { ...whole, repo: 'gpt2' });
  t.strictSame(tryRepositoryName('http://mirror.example/o/r', 'http://mirror.example'), whole);
  t.ok(isHubName(tryRepositoryName('o/r@v1')));
  t.notOk(isHubName(tryRepositoryName('gpt2')));
  t.notOk(isHubName(tryRepositoryName('local/mine')));
  t.end();
});

t.test('a path is not a repository', (t) => {
  for (const name of ['./o/r', '../o/r', '/o/r', '~/o/r', 'o/r.gguf', 'm@2.gguf', 'C:\\o\\r', 'o\\r', 'o/r/sub', 'o/r/../x.gguf', 'o//x.gguf', 'https://example.com/o/r', 'a b/c', 'o/r:', 'o/r@', 'o/r:a:b', 'a\nb', '']) {
    t.equal(tryRepositoryName(name), undefined, JSON.stringify(name));
  }
  t.end();
});

t.test('HF_ENDPOINT is an address or refused', (t) => {
  t.equal(hubEndpoint({}), 'https://huggingface.co');
  t.equal(hubEndpoint({ HF_ENDPOINT: 'http://mirror.example/models//' }), 'http://mirror.example/models');
  for (const given of ['mirror.example', 'ftp://mirror.example']) t.throws(() => hubEndpoint({ HF_ENDPOINT: given }), { code: 'invalid_usage' }, given);
  t.throws(() => hubEndpoint({ HF_ENDPOINT: 'ftp://ann:word@mirror.example' }), { message: /got "ftp:\/\/mirror\.example"\.$/ }, 'without the password');
  t.throws(() => hubEndpoint({ HF_ENDPOINT: 'ann:word@mirror.example' }), { message: /got "mirror\.example"\.$/ });
  t.throws(() => readRepositoryName('https://ann:word@other.example/o/r'), { message: /got "https:\/\/other\.example\/o\/r": / });
  t.end();
});

t.test('a name that is too long is refused before it is read', (t) => {
  const given = `a/b${'@'.repeat(5_000)}`;
  t.throws(() => readRepositoryName(given), { code: 'invalid_name', message: /longer than 4096 characters/ });
  t.equal(tryRepositoryName(given), undefined);
  t.end();
});
