// The house's walls: who may import whom, which modules are pure, and how long a file may be.
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
/** Code without comments, so that a sentence about an import is none. */
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

/** The engine as the gateway process has it; the rest of src/engine runs beside the addon, in the engine process. */
const gatewaySide = new Set([
  ...['client', 'answer', 'calls', 'child', 'early', 'open-mp', 'watch'].map((name) => `src/engine/${name}.ts`), 'src/native/survey.ts', 'src/native/machine-text.ts',
]);

/** The floor of the house a file stands on. A file may import from its own room and from those listed for it. */
function roomOf(file: string): string {
  if (/^src\/(errors|config|installation|process-identity|lock-file|small-file|rounding)\.ts$/.test(file)) return 'floor';
  if (gatewaySide.has(file)) return 'client';
  if (file === 'src/addon.ts' || file.startsWith('src/native/')) return 'addon';
  if (/^src\/index\.c?ts$/.test(file)) return 'index';
  if (/^src\/engine\/(api|protocol|whole-answer)\.ts$/.test(file)) return 'contract';
  return file.split('/')[1]!;
}

/** Room → rooms it may import at run time. Types of the contract may be named anywhere above the floor. */
const allowed: Record<string, string[]> = {
  floor: ['floor'],
  addon: ['floor', 'client'],
  contract: ['floor'],
  // The engine in this process (local) has the same calls as the client.
  // What it loads is checked by models once more.
  engine: ['floor', 'contract', 'addon', 'client', 'models'],
  client: ['floor', 'contract'],
  models: ['floor'],
  server: ['floor', 'contract', 'models'],
  cli: ['floor', 'contract', 'client', 'server', 'models'],
  library: ['floor', 'contract', 'client', 'engine', 'server', 'models'],
  index: ['floor', 'library'],
};
/** Beyond those, what may be imported for its types alone. */
const allowedTypes: Record<string, string[]> = { contract: ['addon'], client: ['addon'], models: ['contract'], cli: ['addon'], index: ['contract', 'addon'] };

t.test('every import of src resolves to a file of src', (t) => {
  const known = new Set(sources);
  t.strictSame(inSource.filter((edge) => !known.has(edge.to)).map(show), []);
  t.ok(inSource.length > 10, 'the import lines were found at all');
  t.end();
});

t.test('imports go one way: cli → server → engine client ⇒ engine host → engine → addon', (t) => {
  const wrong = inSource.filter((edge) => {
    const from = roomOf(edge.from);
    const to = roomOf(edge.to);
    if (from === to || allowed[from]?.includes(to)) return false;
    return !(edge.typeOnly && allowedTypes[from]?.includes(to));
  });
  t.strictSame(wrong.map(show), []);
  t.end();
});

t.test('src holds no room that the house does not know', (t) => {
  t.strictSame([...new Set(sources.map(roomOf))].filter((room) => !(room in allowed)), []);
  t.end();
});

t.test('only native/load.ts loads a .node file', (t) => {
  const loaders = sources.filter((file) => /createRequire|process\.dlopen/.test(codeOf(file)));
  t.strictSame(loaders, ['src/native/load.ts']);
  t.end();
});

t.test('only server/ knows the words of the OpenAI wire', (t) => {
  const words = /finish_reason['"]?\s*[:?]\s*['"n]|chat\.completion|\bchatcmpl\b|\[DONE\]|text\/event-stream/;
  // The command line prints a JSON object of its own with --json, and the curl line names the route's path.
  const speakers = sources.filter((file) => words.test(codeOf(file)) && !file.startsWith('src/server/'));
  t.strictSame(speakers, []);
  t.end();
});

t.test('scheduler, pace, sequence, prefix, sampling and text are pure', (t) => {
  const pure = ['scheduler', 'pace', 'sequence', 'prefix', 'stash-pool', 'sampling', 'text'].map((name) => `src/engine/${name}.ts`);
  for (const file of pure) {
    const code = codeOf(file);
    t.strictSame(edgesOf(file).filter((edge) => !edge.typeOnly && !pure.includes(edge.to)).map(show), [], `${file} imports only its like`);
    t.notMatch(code, /\bawait\b|\basync\b|\bDate\b|\bperformance\b|\bprocess\b|\bsetTimeout\b|Math\.random/, `${file} has no clock, no waiting, no chance`);
  }
  t.end();
});

t.test('no import goes in a circle', (t) => {
  const next = new Map(sources.map((file) => [file, inSource.filter((edge) => edge.from === file && !edge.typeOnly).map((edge) => edge.to)]));
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

t.test('there is no utils, helpers, types or common folder', (t) => {
  const folders = sources.flatMap((file) => file.split('/').slice(0, -1));
  t.strictSame(folders.filter((name) => /^(utils?|helpers?|types|common|misc|lib)$/.test(name)), []);
  t.end();
});
