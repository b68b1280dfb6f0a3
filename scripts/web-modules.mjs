// Copies the third-party modules of the page at / from node_modules to web/vendor/, as ES modules
// that browsers load directly, with their licenses. The published package contains the copies, so
// users of Recua do not install these packages.
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { place, root } from './place.mjs';
import { Failure } from './process.mjs';
import { fingerprint, readJson, writeJson } from './stamp.mjs';

const folder = join(place.web, 'vendor');
const stampPath = join(place.build, 'web-modules.stamp.json');

/** The languages that models write most. */
const languages = ['bash', 'cpp', 'csharp', 'css', 'diff', 'dockerfile', 'go', 'ini', 'java', 'json', 'kotlin', 'lua', 'markdown', 'php', 'python', 'ruby', 'rust',
  'sql', 'swift', 'typescript', 'xml', 'yaml'];

/**
 * By file in web/vendor: the package, its file, and the name under which TypeScript finds its
 * types, if it has any.
 */
const modules = {
  'preact.js': { from: 'preact', file: 'dist/preact.mjs', types: 'preact' },
  'hooks.js': { from: 'preact', file: 'hooks/dist/hooks.mjs', types: 'preact/hooks' },
  'htm.js': { from: 'htm', file: 'dist/htm.module.js', types: 'htm' },
  'marked.js': { from: 'marked', file: 'lib/marked.esm.js' },
  // The small file is a script that defines a variable.
  'temml.js': { from: 'temml', file: 'dist/temml.min.js', ending: 'export default temml;\n' },
  'highlight.js': { from: '@highlightjs/cdn-assets', file: 'es/core.min.js' },
  // Also for browsers a few years old. Loaded with the first PDF that a user attaches.
  'pdf.js': { from: 'pdfjs-dist', file: 'legacy/build/pdf.min.mjs', types: 'pdfjs-dist' },
  'pdf-worker.js': { from: 'pdfjs-dist', file: 'legacy/build/pdf.worker.min.mjs' },
  ...Object.fromEntries(languages.map((name) => [`languages/${name}.js`, { from: '@highlightjs/cdn-assets', file: `es/languages/${name}.min.js` }])),
};

/**
 * Character maps for East Asian fonts without their own: files that the PDF reader loads on demand.
 */
const letterTables = join(place.nodeModules, 'pdfjs-dist', 'cmaps');

const sourceOf = ({ from, file }) => join(place.nodeModules, from, file);

function currentFingerprint() {
  const versions = [...new Set(Object.values(modules).map(({ from }) => from))].map((from) => [from, readJson(join(place.nodeModules, from, 'package.json'))?.version]);
  return fingerprint([join(root, 'scripts', 'web-modules.mjs')], versions);
}

export function webModulesPending() {
  return readJson(stampPath)?.fingerprint !== currentFingerprint() || Object.keys(modules).some((name) => !existsSync(join(folder, name)));
}

export function copyWebModules() {
  const lost = Object.values(modules).find((module) => !existsSync(sourceOf(module)));
  if (lost) throw new Failure(`${lost.from} is not in node_modules. Run \`npm run setup\`, which installs packages.`);
  rmSync(folder, { recursive: true, force: true });
  for (const [name, module] of Object.entries(modules)) {
    const text = readFileSync(sourceOf(module), 'utf8')
      // Rewrite the one import between them: browsers cannot resolve package names.
      .replace(/from\s*(["'])preact\1/g, 'from"./preact.js"')
      .replace(/^\/\/# sourceMappingURL=.*$/m, '');
    write(name, `${text}${module.ending ?? ''}`);
    if (name.includes('/')) continue;
    write(name.replace(/js$/, 'd.ts'), module.types ? typesOf(module.types) : 'declare const all: any;\nexport default all;\nexport class Lexer {\n  constructor(options: any);\n  lex(text: string): any[];\n  inlineTokens(text: string, tokens?: any[]): any[];\n}\nexport const Marked: any;\n');
  }
  cpSync(letterTables, join(folder, 'cmaps'), { recursive: true });
  write('LICENSES.txt', licenses());
  writeJson(stampPath, { fingerprint: currentFingerprint() });
}

/** For type-checking web/; not published. */
function typesOf(name) {
  return name === 'htm' ? `export { default } from '${name}';\n` : `export * from '${name}';\n`;
}

/** Packages that have copies. */
export function webPackages() {
  return [...new Set(Object.values(modules).map(({ from }) => from))].map((name) => {
    const { version, license } = readJson(join(place.nodeModules, name, 'package.json'));
    return { name, version, license };
  });
}

function licenses() {
  return webPackages().map(({ name: from, version, license }) => {
    const file = ['LICENSE', 'LICENSE.md', 'LICENSE.txt', 'license'].map((name) => join(place.nodeModules, from, name)).find((path) => existsSync(path));
    return `${from} ${version} (${license})\n\n${file ? readFileSync(file, 'utf8').trim() : ''}\n`;
  }).join(`\n${'-'.repeat(72)}\n\n`);
}

function write(name, text) {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
