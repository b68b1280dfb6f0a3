import t from 'tap';
import { execFileSync } from 'node:child_process';
import { shellWord } from '#recua/models/names/shell-word.js';

t.test('shellWord() quotes what a shell would split, and only that', (t) => {
  t.equal(shellWord('owner/repo:Q4_K_M'), 'owner/repo:Q4_K_M');
  t.equal(shellWord('ñandú-日本.gguf'), 'ñandú-日本.gguf');
  for (const word of ['two words', "it's", '$HOME `x` "y" \\', '*', '']) {
    t.equal(execFileSync('sh', ['-c', `printf %s ${shellWord(word)}`], { encoding: 'utf8' }), word);
  }
  t.end();
});
