// What `npm run docs:site` does with the pages before VitePress gets them, and how it checks the
// result. The build itself needs the network.
import t from 'tap';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { scripts } from './checkout.js';

const { collectPages, deadLinks } = await import(`${scripts}docs-site.mjs`) as {
  collectPages(to: string): string[];
  deadLinks(folder: string): string[];
};
const { headingAnchor } = await import(`${scripts}heading-anchor.mjs`) as { headingAnchor(heading: string, seen?: Map<string, number>): string };

t.test('the site has README, docs and the pages they link to, with links that work there', (t) => {
  const folder = t.testdir();
  const pages = collectPages(folder);
  for (const page of ['README.md', 'CONTRIBUTING.md', 'docs/http.md', 'docs/design/attention.md', 'src/server/reference/README.md']) t.ok(pages.includes(page), page);
  const read = (path: string) => readFileSync(join(folder, path), 'utf8');
  t.match(read('index.md'), /!\[The page, light\]\(\/docs\/images\/chat-light\.png\)/);
  t.ok(existsSync(join(folder, 'public/docs/images/chat-light.png')));
  t.match(read('docs/getting-started.md'), '(../index.md#install)');
  t.match(read('examples/index.md'), '[commonjs.cjs](/examples/commonjs.cjs.txt)');
  t.match(read('docs/design/index.md'), /- \[.+\]\(attention\.md\)/);
  t.end();
});

t.test('a broken link or anchor of the site is found', (t) => {
  const folder = t.testdir({
    'index.html': '<h2 id="a">A</h2><a href="#a">1</a><a class="x" href="/docs/b.html#b">2</a><a href="docs/c.html">3</a><a href="/docs/b.html#no">4</a><a href="https://example.com/">5</a><a href="/f.txt">6</a>',
    docs: { 'b.html': '<h2 id="b">B</h2><a href="./../">7</a><a href="#b-1">8</a>' },
    'f.txt': '',
  });
  t.strictSame(deadLinks(folder), ['docs/b.html: #b-1', 'index.html: docs/c.html', 'index.html: /docs/b.html#no']);
  t.end();
});

t.test('anchors match those of GitHub', (t) => {
  const seen = new Map<string, number>();
  t.strictSame(['POST /v1/chat/completions', 'The `-c` flag', 'A [link](x.md) here', 'A link here'].map((heading) => headingAnchor(heading, seen)), ['post-v1chatcompletions', 'the--c-flag', 'a-link-here', 'a-link-here-1']);
  t.end();
});
