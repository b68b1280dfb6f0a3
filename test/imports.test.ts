// The architecture rules, by folder: which imports are allowed, which modules are pure, how long a
// file and how full a folder may be.
import t from 'tap';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

function filesUnder(folder: string, ending: RegExp): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && ending.test(entry.name))
    .map((entry) => posix.join(folder, join(entry.parentPath, entry.name).slice(join(root, folder).length + 1).replaceAll('\\', '/')))
    .sort();
}

interface Edge {
  from: string;
  /** A path in src, or a package. */
  to: string;
  typeOnly: boolean;
}

const sources = filesUnder('src', /\.c?ts$/);
const textOf = (file: string) => readFileSync(join(root, file), 'utf8');
/** Code without comments, so that a sentence about an import does not count. */
const codeOf = (file: string) => textOf(file).replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1');

function edgesOf(file: string): Edge[] {
  const pattern = /(?:^|\n)\s*(import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s*)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/g;
  return [...codeOf(file).matchAll(pattern)].map(([, , type, named, dynamic]) => {
    const target = (named ?? dynamic)!;
    return {
      from: file,
      to: target.startsWith('.') ? posix.join(posix.dirname(file), target).replace(/\.js$/, '.ts') : target,
      typeOnly: type !== undefined,
    };
  });
}

const edges = sources.flatMap(edgesOf);
const inSource = edges.filter((edge) => edge.to.startsWith('src/'));
const show = (edge: Edge) => `${edge.from} imports ${edge.to}`;

/** The imports a module may use at run time, and those it may use for types only. */
interface Module {
  imports: string[];
  types: string[];
}

/** A folder whose README lists its allowed imports: all in it, except modules of their own. */
function readModule(readme: string): Module {
  const text = textOf(readme);
  const named = (label: string): string[] => {
    const [, list = ''] = new RegExp(`^${label}: ([^]*?)\\.$`, 'm').exec(text) ?? [];
    return [...list.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
  };
  if (!/^Imports: (`|nothing\.)/m.test(text)) throw new Error(`${readme} does not say "Imports: …".`);
  return { imports: named('Imports'), types: named('Types only') };
}

const modules: Record<string, Module> = {
  // Files that are their own modules.
  errors: { imports: [], types: [] },
  index: { imports: ['errors', 'library'], types: ['engine', 'addon'] },
  ...Object.fromEntries(filesUnder('src', /^README\.md$/).map((readme) => [posix.dirname(readme).slice('src/'.length), readModule(readme)])),
};

/** The innermost module that a file is in. */
function moduleOf(file: string): string {
  const path = file.slice('src/'.length).replace(/\.c?ts$/, '').split('/');
  for (let depth = path.length; depth > 0; depth--) {
    const module = path.slice(0, depth).join('/');
    if (module in modules) return module;
  }
  return path[0]!;
}

t.test('every import of src resolves to a file of src', (t) => {
  const known = new Set(sources);
  t.strictSame(inSource.filter((edge) => !known.has(edge.to)).map(show), []);
  t.ok(inSource.length > 10, 'the import lines were found at all');
  t.end();
});

t.test('a module imports only what its README allows', (t) => {
  const wrong = inSource.filter((edge) => {
    const from = moduleOf(edge.from);
    const to = moduleOf(edge.to);
    const { imports, types } = modules[from]!;
    return from !== to && !imports.includes(to) && !(edge.typeOnly && types.includes(to));
  });
  t.strictSame(wrong.map(show), []);
  t.end();
});

t.test('each folder is in a module, and no README allows an import that nothing needs', (t) => {
  t.strictSame([...new Set(sources.map(moduleOf))].sort(), Object.keys(modules).sort());
  const used = new Set(inSource.map((edge) => `${moduleOf(edge.from)} ${moduleOf(edge.to)}`));
  const unused = Object.entries(modules).flatMap(([from, { imports, types }]) => [...imports, ...types].filter((to) => !used.has(`${from} ${to}`)).map((to) => `${from} → ${to}`));
  t.strictSame(unused, []);
  t.end();
});

t.test('only addon/load.ts loads a .node file', (t) => {
  const loaders = sources.filter((file) => /createRequire|process\.dlopen/.test(codeOf(file)));
  t.strictSame(loaders, ['src/addon/load.ts']);
  t.end();
});

t.test('only server/ knows the field names of OpenAI\'s format', (t) => {
  const words = /finish_reason['"]?\s*[:?]\s*['"n]|chat\.completion|\bchatcmpl\b|\[DONE\]|text\/event-stream/;
  // The command line prints its own JSON object with --json, and the curl line contains the path of
  // the route.
  const speakers = sources.filter((file) => words.test(codeOf(file)) && !file.startsWith('src/server/'));
  t.strictSame(speakers, []);
  t.end();
});

t.test('planning and text cutting are pure', (t) => {
  for (const file of sources.filter((path) => ['engine/leases', 'engine/planning', 'engine/text'].includes(moduleOf(path)))) {
    const packages = edgesOf(file).filter((edge) => !edge.typeOnly && !edge.to.startsWith('src/'));
    t.strictSame(packages.map(show), [], `${file} needs no package and nothing of Node`);
    t.notMatch(codeOf(file), /\bawait\b|\basync\b|\bDate\b|\bperformance\b|\bprocess\b|\bsetTimeout\b|Math\.random/, `${file} has no clock, no waiting, no chance`);
  }
  t.end();
});

t.test('imports form no cycle', (t) => {
  const next = new Map(
    sources.map((file) => [file, inSource.filter((edge) => edge.from === file && !edge.typeOnly).map((edge) => edge.to)]),
  );
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, path: string[]) => {
    if (path.includes(file)) {
      circles.push([...path.slice(path.indexOf(file)), file].join(' → '));
      return;
    }
    if (done.has(file)) return;
    for (const to of next.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  };
  for (const file of sources) visit(file, []);
  t.strictSame(circles, []);
  t.end();
});

t.test('no file of src, native or scripts is over 400 lines', (t) => {
  const files = [...sources, ...filesUnder('native', /\.(cpp|h)$/), ...filesUnder('scripts', /\.mjs$/)];
  const long = files.map((file) => [file, textOf(file).split('\n').length - 1] as const).filter(([, lines]) => lines > 400);
  t.strictSame(long, []);
  t.end();
});

t.test('no folder of src or native holds over 20 files', (t) => {
  const counts = new Map<string, number>();
  for (const file of [...sources, ...filesUnder('native', /\.(cpp|h)$/)]) counts.set(posix.dirname(file), (counts.get(posix.dirname(file)) ?? 0) + 1);
  t.strictSame([...counts].filter(([, count]) => count > 20), []);
  t.end();
});

/** Lines of prose: comments, and the text of a page except its tables and code. */
function proseOf(file: string): string[] {
  const lines = textOf(file).split('\n');
  if (!file.endsWith('.md')) return lines.filter((line) => /^\s*(\/\/|\/?\*+ )/.test(line));
  let isCode = false;
  return lines.filter((line) => {
    if (/^\s*```/.test(line)) isCode = !isCode;
    return !isCode && !/^( {4}|\s*\|)|https?:/.test(line);
  });
}

t.test('no line of prose is over 100 columns', (t) => {
  // These are generated, with one line per paragraph.
  const pages = ['README.md', 'CONTRIBUTING.md', ...filesUnder('docs', /\.md$/)].filter((page) => !/\/(api|cli|http)\.md$/.test(page));
  const code = ['src', 'native', 'test', 'scripts', 'bench', 'examples'].flatMap((folder) => filesUnder(folder, /\.(c?ts|m?js|cpp|h)$/)).filter((file) => !file.startsWith('bench/build/'));
  const long = [...pages, ...code].flatMap((file) => proseOf(file).filter((line) => [...line].length > 100).map((line) => `${file}: ${line}`));
  t.strictSame(long.filter((line) => !line.includes('/* .')), []);
  t.end();
});

t.test('there is no utils, helpers, types or common folder', (t) => {
  const folders = sources.flatMap((file) => file.split('/').slice(0, -1));
  t.strictSame(folders.filter((name) => /^(utils?|helpers?|types|common|misc|lib)$/.test(name)), []);
  t.end();
});
