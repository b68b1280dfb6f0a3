import t from 'tap';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { makeCheckout } from './checkout.js';
import type { Checkout } from './checkout.js';

const vendored = (checkout: Checkout, ...path: string[]) => join(checkout.folder, 'vendor', 'llama.cpp', ...path);
const upstreamSource = (checkout: Checkout) => ({ git: pathToFileURL(checkout.upstream).href, tag: 'v1' });

t.test('vendor fetches the pinned tree byte for byte, says from where, and then finds it in place', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([upstreamSource(checkout)]);
  t.match(checkout.run('vendor.mjs'), { status: 0, output: /v1 from file:.*upstream at v1/ });
  t.equal(readFileSync(vendored(checkout, 'include', 'llama.h'), 'utf8'), '// one\r\n// two\n');
  t.notOk(existsSync(`${vendored(checkout)}.partial`));
  t.match(checkout.run('vendor.mjs', { PATH: '' }), { status: 0, output: /in place/ }, 'without a call of git');
  t.end();
});

t.test('vendor tries the next source and says why the first failed', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([{ git: pathToFileURL(join(checkout.folder, 'nowhere')).href, tag: 'v1' }, upstreamSource(checkout)]);
  const { status, output } = checkout.run('vendor.mjs');
  t.equal(status, 0);
  t.match(output, /v1 from .*upstream at v1 \(.*nowhere at v1: git clone/s);
  t.end();
});

t.test('vendor refuses a different tree, with what came and what was expected', (t) => {
  const checkout = makeCheckout(t.testdir());
  const expected = '0123456789abcdef0123456789abcdef01234567';
  checkout.pin([upstreamSource(checkout)], expected);
  const { status, output } = checkout.run('vendor.mjs');
  t.equal(status, 1);
  t.match(output, new RegExp(`refused, it has the git tree ${checkout.tree}, expected ${expected}`));
  t.notOk(existsSync(vendored(checkout)));
  t.end();
});

t.test('vendor repairs a checkout that is damaged, partial or of an older pin', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([upstreamSource(checkout)]);
  const good = () => {
    t.match(checkout.run('vendor.mjs'), { status: 0 });
    t.ok(existsSync(vendored(checkout, 'include', 'llama.h')));
  };
  mkdirSync(vendored(checkout, 'src'), { recursive: true });
  mkdirSync(join(`${vendored(checkout)}.partial`, 'from-a', 'tree'), { recursive: true });
  good();
  rmSync(vendored(checkout, 'include', 'llama.h'));
  good();
  rmSync(vendored(checkout, '.git', 'HEAD'));
  rmSync(vendored(checkout, '.git', 'recua.json'));
  good();
  writeFileSync(vendored(checkout, '.git', 'recua.json'), '{"tree":"of an older pin"}');
  good();
  t.end();
});

t.test('vendor does not discard local changes', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([upstreamSource(checkout)]);
  checkout.run('vendor.mjs');
  writeFileSync(vendored(checkout, 'include', 'llama.h'), '// mine\n');
  rmSync(vendored(checkout, '.git', 'recua.json'));
  t.match(checkout.run('vendor.mjs'), { status: 1, output: /changes of its own.*RECUA_LLAMA_CPP/s });
  t.equal(readFileSync(vendored(checkout, 'include', 'llama.h'), 'utf8'), '// mine\n');
  t.end();
});
