import t from 'tap';
import { fileURLToPath } from 'node:url';
import { Pty } from '../pty.js';
import { mainPath } from '../recua.js';

const output = fileURLToPath(new URL('../../../dist/cli/terminal/output.js', import.meta.url));

t.test('a message during a progress line gets a line of its own, and the progress continues below', async (t) => {
  const program = `
    const { LoadingLine, say } = await import(${JSON.stringify(output)});
    const line = new LoadingLine('Loading model');
    line.show(0);
    say('Warning: something is odd');
    line.show(0.5);
    say('Warning: and still is');
    process.once('SIGUSR2', () => { line.end(); say('Done.'); });
    setInterval(() => {}, 1000);`;
  const pty = new Pty(['--input-type=module', '-e', program], { program: process.execPath });
  t.teardown(() => pty.dispose());
  await pty.until(() => pty.lines().at(-1) === 'Loading model … 50%' && pty.text().includes('still'));
  t.strictSame(pty.lines(), ['Warning: something is odd', 'Warning: and still is', 'Loading model … 50%']);
  pty.kill('SIGUSR2');
  await pty.until(/Done\./);
  t.strictSame(pty.lines().slice(0, 2), ['Warning: something is odd', 'Warning: and still is']);
  t.notMatch(pty.text(), /Loading/);
  t.equal(pty.lines().at(-1), 'Done.');
});

t.test('the name in a progress line does not control the terminal', async (t) => {
  const program = `
    const { LoadingLine } = await import(${JSON.stringify(output)});
    new LoadingLine('Loading a\\x1b]0;owned\\x07\\x9b2Jb').show(0.5);
    setInterval(() => {}, 1000);`;
  const pty = new Pty(['--input-type=module', '-e', program], { program: process.execPath });
  t.teardown(() => pty.dispose());
  await pty.until(/ … 50%/);
  t.strictSame(pty.lines(), ['Loading a\\u001b]0;owned\\u0007\\u009b2Jb … 50%']);
  t.notMatch(pty.raw, /\x1b\]0;|\x9b/);
});

t.test('a terminal without a size counts as one of 80 columns', async (t) => {
  const pty = new Pty(['-c', 'stty cols 0 rows 0; "$0" "$1" list', process.execPath, mainPath], { program: 'sh' });
  t.teardown(() => pty.dispose());
  await pty.ended;
  t.match(pty.text(), /^NAME +QUANTIZATION/m);
});
