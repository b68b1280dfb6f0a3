import t from 'tap';
import { parseJson, withLine } from '#recua/cli/flags/json-file.js';

t.test('a fault in JSON has its line, with any version of Node', (t) => {
  const json = '{\n  "port": 1,\n  x\n}';
  t.throws(() => parseJson(json), { name: 'SyntaxError', message: /line 3,? column 3/ });
  t.same(parseJson('\uFEFF{"a": 1}'), { a: 1 });
  t.equal(withLine('Unexpected token x in JSON at position 17', json), 'Unexpected token x in JSON at line 3, column 3');
  const newer = 'Expected double-quoted property name in JSON at position 17 (line 3 column 3)';
  t.equal(withLine(newer, json), newer);
  t.equal(withLine('Unexpected end of JSON input', '{'), 'Unexpected end of JSON input');
  t.end();
});
