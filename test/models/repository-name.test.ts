import t from 'tap';
import { readRepositoryName } from '#recua/models/repository-name.js';

t.test('a repository is named in all the ways people name it', (t) => {
  for (const [given, repo, word, revision] of [
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
  ] as const) t.strictSame(readRepositoryName(given), { repo, word, revision }, given);
  t.strictSame(readRepositoryName('https://mirror.example/models/owner/repo', 'https://mirror.example/models'), { repo: 'owner/repo', word: undefined, revision: undefined });
  t.end();
});

t.test('what could lead out of the store or is another hub\'s is refused', (t) => {
  for (const given of ['', '/', '../x', 'a/..', 'owner/repo:../../x', 'owner/repo@../x', 'owner/repo/../../x', 'a//b', 'owner/re--po', 'owner/re po', '.hidden/x', 'owner/repo\0',
    'https://example.com/owner/repo', 'https://huggingface.co/owner/repo/resolve/main/%2e%2e%2fx', 'https://huggingface.co/owner/repo/resolve/%E0%A4%A/x',
    'owner/repo:C:\\x', 'hf:', 'https://']) {
    t.throws(() => readRepositoryName(given), { code: 'invalid_name' }, given);
  }
  t.end();
});
