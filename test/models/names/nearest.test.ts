import t from 'tap';
import { nearest } from '#recua/models/names/nearest.js';

t.test('nearest() finds the word that was misspelled', (t) => {
  const known = ['--port', '--prompt', '--parallel', 'show', 'api', 'run', 'version'];
  t.equal(nearest('--prot', known), '--port');
  t.equal(nearest('--promt', known), '--prompt');
  t.equal(nearest('--paralel', known), '--parallel');
  t.equal(nearest('shwo', known), 'show');
  t.equal(nearest('versoin', known), 'version');
  t.equal(nearest('stat', ['start', 'status', 'stop']), 'status', 'an unfinished word');
  t.end();
});

t.test('nearest() offers nothing for an unrelated word', (t) => {
  t.equal(nearest('pull', ['api', 'run', 'show', 'help', 'version']), undefined);
  t.equal(nearest('--zzz', ['--port']), undefined);
  t.equal(nearest('x', []), undefined);
  t.end();
});
