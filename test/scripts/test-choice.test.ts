// Which tests `npm test` runs, with the real files of this checkout.
import t from 'tap';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../cli/recua.js';
import { scripts } from './checkout.js';

const { allTests, longestFirst, longTests, needsPeers, testsConcerning, testsOf } = await import(`${scripts}test-choice.mjs`) as {
  allTests(): string[];
  longestFirst(tests: string[]): string[];
  longTests(): string[];
  needsPeers(tests: string[]): boolean;
  testsConcerning(paths: string[]): Promise<string[]>;
  testsOf(patterns: string[]): string[];
};

const long = longTests();
const short = allTests().filter((path) => !long.includes(path));
const partOf = (path: string) => path.split('/').length > 2 ? path.split('/')[1]! : '';

t.test('each test file is in one of the two forms: long.txt names existing files, once, in order', (t) => {
  t.strictSame(long.filter((path) => !allTests().includes(path)), []);
  t.strictSame(long, [...new Set(long)].sort());
  t.ok(allTests().length > 200 && short.length > long.length);
  t.end();
});

t.test('files that take minutes run first, the others stay in order', (t) => {
  const given = ['test/addon/load.test.ts', 'test/imports.test.ts', 'test/models/hub/hub.test.ts', 'test/service/architectures.test.ts'];
  t.strictSame(longestFirst(given), [given[3], given[2], given[0], given[1]]);
  t.end();
});

t.test('the short form has tests of every part, and needs no llama.cpp program', (t) => {
  t.strictSame([...new Set(allTests().map(partOf))].filter((part) => !short.some((path) => partOf(path) === part)), []);
  t.equal(needsPeers(short), false);
  t.equal(needsPeers(['test/service/fidelity.test.ts']), true);
  t.equal(needsPeers(['test/service/quantized.test.ts']), true);
  t.end();
});

t.test('a pattern is a file, a compiled file or a part of a path, and one that matches nothing is refused', (t) => {
  t.strictSame(testsOf(['./test/models/gguf/gguf.test.ts', 'dist-test/models/gguf/gguf.test.js']), ['test/models/gguf/gguf.test.ts']);
  t.ok(testsOf(['test/native']).every((path) => path.startsWith('test/native/')));
  t.ok(testsOf(['cli/*/chat']).includes('test/cli/commands/chat.test.ts'));
  t.throws(() => testsOf(['nothing-of-the-kind']), { message: /No test file's path holds "nothing-of-the-kind"/ });
  t.end();
});

t.test('a changed file selects the tests that import it, directly or not', async (t) => {
  const byCosts = await testsConcerning(['src/engine/planning/step-costs.ts']);
  t.ok(byCosts.includes('test/engine/planning/step-costs.test.ts'), 'by its name');
  t.ok(byCosts.includes('test/engine/loop/engine-loop.test.ts'), 'through engine-loop.ts, which imports it');
  t.notOk(byCosts.includes('test/models/gguf/gguf.test.ts'));
  t.ok((await testsConcerning(['test/models/gguf-bytes.ts'])).includes('test/models/gguf/gguf.test.ts'), 'a file of tests that tests import');
  t.strictSame(await testsConcerning(['test/scripts/packages.snapshot.txt']), ['test/imports.test.ts', ...allTests().filter((path) => path.startsWith('test/scripts/'))], 'data of tests');
  t.ok((await testsConcerning(['src/cli/commands/rm.ts'])).includes('test/cli/commands/rm.test.ts'), 'one that starts the built program');
});

t.test('native code selects the tests of native and engine; pages and scripts select theirs', async (t) => {
  const parts = async (path: string) => [...new Set((await testsConcerning([path])).map(partOf))];
  t.strictSame(await parts('native/sampling/sampler.cpp'), ['addon', 'engine', '', 'native']);
  t.strictSame(await parts('web/app/main.js'), ['page', 'server']);
  t.strictSame(await parts('scripts/stamp.mjs'), ['', 'scripts']);
  t.ok((await testsConcerning(['README.md'])).includes('test/doc-links.test.ts'));
  t.strictSame(await testsConcerning(['LICENSE']), []);
  t.ok(existsSync(join(root, 'native/sampling/sampler.cpp')));
});
