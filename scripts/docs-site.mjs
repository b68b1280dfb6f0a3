// `npm run docs:site`: builds README, docs/ and what they link to as a static site with search in
// build/docs-site. npx fetches VitePress at this version; it is not installed with the packages,
// because it and its dependencies take 100 MB. Checks every link and anchor of the built pages.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { isProgram, place, root } from './place.mjs';
import { Failure, npm, run } from './process.mjs';
import { say, step } from './progress.mjs';
import { program } from './setup.mjs';
import { filesUnder, readJson } from './stamp.mjs';

const vitepress = 'vitepress@1.6.4';
const pagesFolder = join(place.build, 'docs-pages');
const siteFolder = join(place.build, 'docs-site');

/** The menu; each page's first heading is its name. */
const menu = [
  ['Use it', ['README.md', 'docs/getting-started.md', 'docs/chat.md', 'docs/page.md', 'docs/models.md', 'docs/clients.md', 'docs/configuration.md', 'docs/gpu.md', 'docs/library.md', 'docs/deployment.md', 'docs/security.md', 'docs/watching.md', 'docs/troubleshooting.md']],
  ['Reference', ['docs/cli.md', 'docs/http.md', 'docs/api.md', 'docs/errors.md']],
  ['How well', ['docs/performance.md', 'docs/reliability.md', 'docs/comparison.md']],
  ['How it works', ['docs/architecture.md', 'docs/history.md', 'docs/design']],
  ['Change it', ['CONTRIBUTING.md', 'docs/vendor.md', 'docs/packages.md', 'CHANGELOG.md']],
];

const linkPattern = /(\]\()([^)\s]+)(?=\))/g;

/** Without code blocks, which contain no links. */
function eachProse(text, work) {
  return text.split(/(^ {0,3}```[^]*?^ {0,3}```)/m).map((part, index) => index % 2 === 1 ? part
    : part.split(/(`[^`\n]*`)/).map((piece, at) => at % 2 === 1 ? piece : work(piece)).join('')).join('');
}

/**
 * Copies the pages reachable from the menu, with the files that they show. A linked folder becomes
 * a page that lists it. Returns the pages.
 */
export function collectPages(to) {
  rmSync(to, { recursive: true, force: true });
  const pages = new Set();
  const open = menu.flatMap(([, paths]) => paths.flatMap((path) => listed(path)));
  const write = (path, text) => {
    mkdirSync(dirname(join(to, path)), { recursive: true });
    writeFileSync(join(to, path), text);
  };
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (pages.has(path)) continue;
    pages.add(path);
    const text = eachProse(readFileSync(join(root, path), 'utf8'), (prose) => prose.replace(linkPattern, (whole, before, target) => {
      if (/^[a-z]+:|^#/.test(target)) return whole;
      const [file, anchor] = target.split('#');
      const source = posix.join(posix.dirname(path), file).replace(/\/$/, '');
      const hash = anchor === undefined ? '' : `#${anchor}`;
      if (!existsSync(join(root, source))) throw new Failure(`${path} links to ${target}, which is not there.`);
      if (source.endsWith('.md')) {
        open.push(source);
        return source === 'README.md' ? `${before}${posix.relative(posix.dirname(path), 'index.md')}${hash}` : whole;
      }
      if (statSync(join(root, source)).isDirectory()) {
        const files = readdirSync(join(root, source)).filter((name) => !name.startsWith('.'));
        open.push(...files.filter((name) => name.endsWith('.md')).map((name) => `${source}/${name}`));
        const items = files.map((name) => name.endsWith('.md') ? `- [${titleOf(`${source}/${name}`)}](${name})` : `- [${name}](${copy(`${source}/${name}`)})`);
        write(`${source}/index.md`, `# ${source}\n\n${items.join('\n')}\n`);
        return `${before}${posix.relative(posix.dirname(path), source)}/index.md`;
      }
      return `${before}${copy(source)}${hash}`;
    }));
    write(path === 'README.md' ? 'index.md' : path, text);
  }
  return [...pages].sort();

  /** Copies a file to where the site serves it unchanged, and returns its address. */
  function copy(source) {
    // Other names would look like pages.
    const served = /\.(png|svg|json|js|txt)$/.test(source) ? source : `${source}.txt`;
    const target = join(to, 'public', served);
    mkdirSync(dirname(target), { recursive: true });
    cpSync(join(root, source), target);
    return `/${served}`;
  }
}

function listed(path) {
  return path.endsWith('.md') ? [path] : filesUnder(join(root, path)).filter((name) => name.endsWith('.md')).map((name) => `${path}/${name}`);
}

function titleOf(path) {
  return /^# (.*)$/m.exec(readFileSync(join(root, path), 'utf8'))?.[1].replaceAll('`', '') ?? path;
}

function config() {
  const { version } = readJson(join(root, 'package.json'));
  const link = (path) => `/${path.replace(/\.md$/, '').replace(/^README$/, '')}`;
  const values = {
    title: 'Recua',
    description: 'GGUF models served from your own machine',
    outDir: siteFolder,
    // deadLinks() below checks all links, with their anchors.
    ignoreDeadLinks: true,
    themeConfig: {
      search: { provider: 'local', options: { miniSearch: { searchOptions: { fuzzy: false, prefix: true } } } },
      outline: [2, 3],
      nav: [{ text: `Version ${version}`, link: '/CHANGELOG' }],
      sidebar: menu.map(([text, paths]) => ({
        text,
        items: paths.flatMap(listed).map((path) => ({ text: titleOf(path), link: link(path) })),
      })),
    },
  };
  return `import { headingAnchor } from ${JSON.stringify(new URL('heading-anchor.mjs', import.meta.url).href)};
export default { ...${JSON.stringify(values, null, 1)},
  // Escape tags, which are text here, and {{ }}, which is not a template.
  markdown: { html: false, attrs: { disable: true }, anchor: { slugify: (text) => headingAnchor(text) }, config(md) {
    const code = md.renderer.rules.code_inline;
    md.renderer.rules.text = (tokens, at) => md.utils.escapeHtml(tokens[at].content).replaceAll('{{', '&#123;&#123;');
    if (code) md.renderer.rules.code_inline = (...all) => code(...all).replace(/^<code(?! v-pre)/, '<code v-pre');
  } },
};
`;
}

/** Links of the built pages to files or ids that do not exist. */
export function deadLinks(folder) {
  const pages = new Map(filesUnder(folder).filter((path) => path.endsWith('.html')).map((path) => [path, readFileSync(join(folder, path), 'utf8')]));
  const dead = [];
  for (const [path, html] of pages) {
    for (const [, href] of html.matchAll(/<a\b[^>]*?\shref="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(href)) continue;
      const [file, anchor] = decodeURI(href.replaceAll('&amp;', '&')).split('#');
      const target = file === '' ? path : posix.join(file.startsWith('/') ? '' : posix.dirname(path), file.replace(/^\//, '')).replace(/(^|\/)\.?$/, '$1index.html');
      const found = pages.get(target) ?? pages.get(`${target}.html`);
      if (found === undefined ? !existsSync(join(folder, target)) : anchor && !found.includes(`id="${anchor}"`)) dead.push(`${path}: ${href}`);
    }
  }
  return [...new Set(dead)];
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const pages = collectPages(pagesFolder);
    mkdirSync(join(pagesFolder, '.vitepress'), { recursive: true });
    writeFileSync(join(pagesFolder, '.vitepress', 'config.mjs'), config());
    await step(`Building ${pages.length} pages by ${vitepress}`, async () => {
      rmSync(siteFolder, { recursive: true, force: true });
      const { command, args, shell } = npm(['exec', '--yes', `--package=${vitepress}`, '--', 'vitepress', 'build', pagesFolder]);
      await run(command, args, { shell });
    });
    const dead = deadLinks(siteFolder);
    if (dead.length > 0) throw new Failure(`Links that lead nowhere:\n${dead.join('\n')}`);
    say(`All links and anchors work. The site is in ${siteFolder}. To view it: npx ${vitepress} preview ${pagesFolder}`);
  });
}
