import t from 'tap';
import { nearest, nearestOnes } from '#recua/models/names/nearest.js';

t.test('nearest() finds the word that was misspelled', (t) => {
  const known = ['--port', '--prompt', '--parallel', 'show', 'api', 'run', 'version'];
  t.equal(nearest('--prot', known), '--port');
  t.equal(nearest('--promt', known), '--prompt');
  t.equal(nearest('--paralel', known), '--parallel');
  t.equal(nearest('shwo', known), 'show');
  t.equal(nearest('versoin', known), 'version');
  t.equal(nearest('stat', ['start', 'status', 'stop']), 'status', 'an unfinished word');
  t.equal(nearest('context', ['batchSize', 'contextSize']), 'contextSize', 'whole words are missing');
  t.equal(nearest('fsh', ['bash', 'zsh', 'fish']), 'fish', 'the first letter is right');
  t.equal(nearest('--system-prompt', ['--system', '--seed', '--prompt']), '--system', 'a word too many');
  t.equal(nearest('context', ['contextual']), undefined);
  t.end();
});

t.test('nearest() offers nothing for an unrelated word', (t) => {
  t.equal(nearest('pull', ['api', 'run', 'show', 'help', 'version']), undefined);
  t.equal(nearest('--zzz', ['--port']), undefined);
  t.equal(nearest('x', []), undefined);
  t.end();
});

t.test('nearestOnes() offers several, the nearest first', (t) => {
  t.strictSame(nearestOnes('chat-2', ['chat-11', 'chat-1', 'chat', 'other', 'chat-3'], 3), ['chat-1', 'chat-3', 'chat-11']);
  t.strictSame(nearestOnes('chat', ['chat-1', 'chats', 'chap'], 2), ['chats', 'chap']);
  t.strictSame(nearestOnes('chat', ['chat'], 0), []);
  t.end();
});

t.test('among very many words only some are compared, of those that have about as many letters', (t) => {
  const many = Array.from({ length: 20_000 }, (_, i) => `model-${100_000 + i}`);
  t.equal(nearest('modle-100007', many), 'model-100007');
  t.not(nearest('modle-119999', many), 'model-119999');
  const long = Array.from({ length: 2_000 }, (_, i) => `${'a long name '.repeat(20)}${i}`);
  t.equal(nearest('modle', [...long, 'model']), 'model');
  t.equal(nearest('model-of-long-name'.repeat(200), many), undefined);
  t.end();
});
