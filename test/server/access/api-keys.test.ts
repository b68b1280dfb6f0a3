import { createHash } from 'node:crypto';
import t from 'tap';
import { ApiKeys } from '#recua/server/access/api-keys.js';

const read = (keys: string, file = '', own?: string): ApiKeys => ApiKeys.read({ keys, file, own });
const now = Date.parse('2026-06-01');

t.test('without configured keys none is needed', (t) => {
  t.notOk(read('').areAsked);
  t.notOk(read('', '', 'own').areAsked, "a server's own key alone asks nobody");
  t.end();
});

t.test('keys are read from the setting, from lines and from JSON', (t) => {
  const several = read('one, two', '# of the team\nthree\r\n\nfour\n');
  const nameOf = (key: string): string => `key ${createHash('sha256').update(key).digest('hex').slice(0, 12)}`;
  t.strictSame(['one', 'two', 'three', 'four', 'five', ''].map((key) => several.find(key, now)?.name), [...['one', 'two', 'three', 'four'].map(nameOf), undefined, undefined]);
  t.equal(read('', 'two\nthree').find('two', now)!.name, several.find('two', now)!.name, 'wherever it stands');
  t.ok(several.find('one', now)!.admin);
  const hash = createHash('sha256').update('hashed').digest('hex');
  const json = read('', JSON.stringify({ keys: [{ name: 'ann', key: 'plain' }, { name: 'bob', sha256: hash, admin: true }, { key: 'old', expires: '2026-05-31' }, { key: 'young', expires: '2026-06-02' }, { name: 'ann', key: 'next', expires: '2026-06-02' }] }), 'own');
  t.match(json.find('plain', now), { name: 'ann', admin: false });
  t.match(json.find('next', now), { name: 'ann', admin: false }, 'a second key of the same user');
  t.match(json.find('hashed', now), { name: 'bob', admin: true });
  t.equal(json.find('old', now), undefined, 'it has expired');
  t.equal(json.find('young', now)!.name, nameOf('young'));
  t.equal(read('', JSON.stringify([{ sha256: hash }])).find('hashed', now)!.name, nameOf('hashed'));
  t.match(json.find('own', now), { admin: true });
  t.match(read('', JSON.stringify([{ name: 'own', key: 'a' }]), 'own').find('a', now), { name: 'own', admin: false }, 'a user may have any name');
  t.end();
});

t.test('an invalid key is refused at once, and never repeated', (t) => {
  for (const [keys, file, message] of [
    ['with blank', '', /^The API keys cannot be used: --api-key, key 1 is not made of visible ASCII/],
    [',', '', /there is no key/],
    ['', '# nothing\n', /there is no key/],
    ['same', 'same', /: --api-key, key 1 and the key file, key 1 are the same key\.$/],
    ['', '{"keys":', /the key file \(--api-key-file\) begins like JSON but is not valid JSON\.$/],
    ['', '{}', /has no list "keys"/],
    ['', '[1]', /keys\[0\] of the key file is not an object/],
    ['', '[{"key":"a","rights":"all"}]', /has the unknown field "rights"; the known fields are name, key, sha256, admin, expires, models,/],
    ['', '[{"name":"x"}]', /needs either key or sha256/],
    ['', '[{"sha256":"abc"}]', /is not 64 hexadecimal digits/],
    ['', '[{"key":"a","admin":"yes"}]', /neither true nor false/],
    ['', '[{"key":"a","expires":"tomorrow"}]', /is not a date/],
    ['', '[{"key":"a","expires":"2027-02-31"}]', /is not a date/],
    ['', '[{"key":"a","expires":"2027-1-31"}]', /is not a date/],
    ['', '[{"key":"a","expires":"never 1"}]', /is not a date/],
    ['', '[{"key":"a","name":"<b>"}]', /the name of keys\[0\]/],
    ['', '[{"key":"a","name":"x","models":["m"]},{"key":"b","name":"x","models":["n"]}]', /two keys named "x" differ in models;/],
    ['', '[{"key":"a","name":"x"},{"key":"b","name":"x","tokens_per_day":1}]', /two keys named "x" differ in tokens_per_day;/],
  ] as const) {
    t.throws(() => read(keys, file), { code: 'invalid_usage', message }, String(message));
  }
  t.throws(() => read('my secret'), { message: /^(?!.*secret)/ });
  t.end();
});

t.test('of thousands of keys, none is compared with each other one, nor with each request', (t) => {
  const count = 2_000;
  const file = JSON.stringify(Array.from({ length: count }, (_, i) => ({ name: `user ${i}`, key: `key-${i}` })));
  let looks = 0;
  const counted = <Of extends object, Name extends keyof Of>(of: Of, name: Name): (() => void) => {
    const own = of[name] as (this: unknown, ...given: unknown[]) => unknown;
    of[name] = function (this: unknown, ...given: unknown[]) {
      const [test] = given;
      if (typeof test !== 'function') looks++;
      else given[0] = (...one: unknown[]) => { looks++; return test(...one) as unknown; };
      return own.apply(this, given);
    } as Of[Name];
    return () => void (of[name] = own as Of[Name]);
  };
  const restore = [counted(Array.prototype, 'find'), counted(Array.prototype, 'findIndex'), counted(Buffer.prototype, 'equals')];
  let keys: ApiKeys;
  try {
    keys = read('', file);
    t.equal(keys.find(`key-${count - 1}`, now)?.name, `user ${count - 1}`);
    t.equal(keys.named(`user ${count - 1}`, now)?.name, `user ${count - 1}`);
  } finally {
    for (const one of restore) one();
  }
  t.ok(looks < count * 20, `${looks} keys were looked at`);
  t.throws(() => read('', file.replace('"key-1999"', '"key-7"')), { message: /keys\[7\] of the key file and keys\[1999\] of the key file are the same key/ });
  t.end();
});
