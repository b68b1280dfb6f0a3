import t from 'tap';
import { DamagedFiles } from '#recua/server/kept/damaged-files.js';

t.test('a file is told of once; once an hour while the system cannot read it', (t) => {
  const warned: string[] = [];
  const files = new DamagedFiles('batch', (text) => warned.push(text));
  const refused = Object.assign(new Error('not permitted'), { code: 'EACCES', errno: -13 });
  const told = (path: string, thrown: unknown): number => {
    warned.length = 0;
    files.skip(path, thrown);
    return warned.length;
  };
  t.equal(told('a', new SyntaxError('no JSON')), 1);
  t.equal(told('a', new SyntaxError('no JSON')), 0);
  t.equal(told('b', refused), 1);
  t.equal(told('b', refused), 0);
  t.equal(told('c', Object.assign(new Error('gone'), { code: 'ENOENT', errno: -2 })), 0);
  const now = performance.now.bind(performance);
  t.intercept(performance, 'now', { value: () => now() + 3_700_000 });
  t.equal(told('a', new SyntaxError('no JSON')), 0);
  t.equal(told('b', refused), 1);
  t.equal(told('b', new SyntaxError('no JSON')), 1, 'now it is damaged');
  t.equal(told('b', refused), 0);
  t.end();
});
