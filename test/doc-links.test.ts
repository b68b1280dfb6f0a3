// Links of the documentation work: their files and headings exist.
import t from 'tap';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { root } from './cli/recua.js';
import { scripts } from './scripts/checkout.js';

const { headingAnchor } = await import(`${scripts}heading-anchor.mjs`) as { headingAnchor(heading: string, seen: Map<string, number>): string };

const pages = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], { cwd: root, encoding: 'utf8' }).split('\n').filter((path) => path !== '' && existsSync(join(root, path)));

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8').replace(/^```[^]*?^```/gm, '');
}

/** Anchors as GitHub makes them from headings. */
function anchorsOf(path: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set([...textOf(path).matchAll(/^#{1,6} +(.+?) *$/gm)].map(([, heading]) => headingAnchor(heading!, seen)));
  for (const [, id] of textOf(path).matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id!);
  return anchors;
}

t.test('every link leads to an existing file and heading', (t) => {
  const dead: string[] = [];
  for (const page of pages) {
    for (const [, target] of textOf(page).replace(/`[^`\n]*`/g, '').matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target!)) continue;
      const [file, anchor] = target!.split('#');
      const path = file === '' ? page : normalize(join(dirname(page), file!));
      if (!existsSync(join(root, path))) dead.push(`${page}: ${target}`);
      else if (anchor !== undefined && path.endsWith('.md') && !anchorsOf(path).has(anchor)) dead.push(`${page}: ${target}`);
    }
  }
  t.strictSame(dead, []);
  t.ok(pages.length > 20);
  t.end();
});

t.test('images of the docs are small, and SVGs load and run nothing', (t) => {
  const images = readdirSync(join(root, 'docs/images'));
  t.strictSame(images.filter((name) => statSync(join(root, 'docs/images', name)).size > 120_000), []);
  const drawn = images.filter((name) => name.endsWith('.svg'));
  t.ok(drawn.length > 0);
  t.strictSame(drawn.filter((name) => /<script|<foreignObject|href=|url\(|@import|\son\w+=/i.test(readFileSync(join(root, 'docs/images', name), 'utf8'))), []);
  t.strictSame(images.filter((name) => !pages.some((page) => readFileSync(join(root, page), 'utf8').includes(`images/${name}`))), [], 'each is shown somewhere');
  t.end();
});
