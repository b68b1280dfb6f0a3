import t, { type Test } from 'tap';
import { RecuaError } from '#recua/errors.js';
import { CrashRecord } from '#recua/engine/gateway/crash-record.js';
import { Restarts, type Ending } from '#recua/engine/gateway/restarts.js';

/** Ends processes at a clock that the test sets. */
function start(t: Test, wasReady = true) {
  let nowMs = 0;
  t.intercept(performance, 'now', { value: () => nowMs });
  const restarts = new Restarts();
  if (wasReady) restarts.loaded();
  const after = (ending: Ending, how = '', stuck = false) => restarts.after({ ending, how, stuck, output: '' });
  const pass = (ms: number): void => void (nowMs += ms);
  /** No process can be started for that long, and each try is followed by another. */
  const shortage = (ms: number, how: string): void => {
    for (const untilMs = nowMs + ms; nowMs < untilMs;) {
      const { delayMs, error } = after('unstarted', how);
      t.equal(error, undefined);
      pass(delayMs);
    }
  };
  return { restarts, after, pass, shortage };
}

t.test('the pause doubles with each end, up to a limit, and shrinks when they were long ago', (t) => {
  const { restarts, after, pass } = start(t);
  const pauses = Array.from({ length: 10 }, () => {
    const { delayMs } = after('clean');
    restarts.loaded();
    return delayMs;
  });
  t.strictSame(pauses, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000]);
  pass(60_000);
  t.equal(after('clean').delayMs, 100);
  t.end();
});

t.test('five deaths within a minute, or in five loads in a row, stop it for a minute', (t) => {
  const { restarts, after, pass } = start(t);
  for (let times = 1; times < 5; times++) {
    t.equal(after('died', 'signal SIGSEGV').error, undefined);
    restarts.loaded();
  }
  t.match(after('died', 'signal SIGSEGV'), { delayMs: 60_000, error: { code: 'model_crashed', message: /died 5 times within 60 s \(last by signal SIGSEGV\); it is tried again in 60 s/ } });
  pass(60_000);
  restarts.loaded();
  for (let times = 1; times < 6; times++) {
    t.equal(after('died').error, undefined);
    pass(60_000);
  }
  t.match(after('died', 'signal SIGKILL'), { error: { message: /died 5 times in a row while loading \(last by signal SIGKILL\)/ } });
  t.equal(after('terminated').error, undefined, 'an end that is no death');
  t.end();
});

t.test('deaths for which a request is to blame only make the pause longer', (t) => {
  const { restarts } = start(t);
  restarts.loaded();
  const pauses: number[] = [];
  for (let round = 0; round < 12; round++) {
    const next = restarts.after({ ending: 'died', how: '', stuck: false, ...(round % 3 === 2 ? { deathsBefore: 2 } : {}), output: '' });
    t.equal(next.error, undefined);
    pauses.push(next.delayMs);
    restarts.loaded();
  }
  t.ok(pauses.at(-1)! > pauses[0]!);
  t.end();
});

t.test('ten requests in a row that are to blame stop it for a minute, unless one is done in between', (t) => {
  const { restarts, after, pass } = start(t);
  const blame = () => {
    pass(60_000);
    const next = restarts.after({ ending: 'died', how: 'signal SIGILL', stuck: false, deathsBefore: 1, output: '' });
    restarts.loaded();
    return next;
  };
  const failed = { delayMs: 60_000, error: { code: 'model_crashed', message: /died of 1\d different requests in a row, and did none in between \(last by signal SIGILL\)/ } };
  for (let times = 1; times < 10; times++) t.equal(blame().error, undefined);
  restarts.survived();
  for (let times = 1; times < 10; times++) t.equal(blame().error, undefined);
  t.match(blame(), failed);
  pass(60_000);
  t.equal(after('died').error, undefined, 'no request is to blame');
  restarts.loaded();
  t.match(blame(), failed, 'nor can it do the next');
  restarts.survived();
  t.equal(blame().error, undefined);
  t.end();
});

t.test('the next engine of a model counts on where the last one ended', (t) => {
  const record = new CrashRecord();
  const next = () => {
    const restarts = new Restarts({}, record);
    restarts.loaded();
    return restarts;
  };
  const end = { ending: 'died', how: 'signal SIGSEGV', stuck: false, output: '' } as const;
  for (let times = 1; times < 5; times++) t.equal(next().after(end).error, undefined);
  t.match(next().after(end), { delayMs: 60_000, error: { code: 'model_crashed', message: /died 5 times within 60 s/ } });
  t.equal(new Restarts({}, record).after(end).error, undefined, 'its first load is tried twice, as always');
  for (let times = 0; times < 9; times++) next().after({ ...end, deathsBefore: 9 });
  t.match(next().after({ ...end, deathsBefore: 0 }), { error: { message: /died of 10 different requests in a row/ } });
  t.end();
});

t.test('deaths of a first load do not count for the engine that serves later', (t) => {
  const record = new CrashRecord();
  const end = { ending: 'died', how: 'signal SIGKILL', stuck: false, output: '' } as const;
  for (let loads = 0; loads < 3; loads++) {
    const first = new Restarts({}, record);
    t.equal(first.after(end).error, undefined);
    t.match(first.after(end), { error: { code: 'model_unusable' } });
  }
  const restarts = new Restarts({}, record);
  restarts.loaded();
  t.strictSame(restarts.after(end), { delayMs: 100 });
  t.end();
});

t.test('a shortage is no death, and its end shortens the pause again', (t) => {
  const { restarts, after, pass, shortage } = start(t);
  t.equal(after('died').delayMs, 100);
  shortage(20_000, 'could not start: EMFILE');
  const failed = { delayMs: 5_000, error: { code: 'too_many_open_files', message: /^For 2\d s, the engine process could not start: EMFILE; it is tried again in 5 s\.$/ } };
  t.match(after('unstarted', 'could not start: EMFILE'), failed);
  pass(5_000);
  t.match(after('unstarted', 'could not start: EMFILE'), { ...failed, error: { message: /^For 2\d s/ } });
  restarts.loaded();
  t.equal(after('died').delayMs, 200, 'two deaths');
  t.end();
});

t.test('a first load is tried again once after a death, and four times after SIGTERM', (t) => {
  const { after } = start(t, false);
  t.match(after('died'), { delayMs: 0, error: undefined });
  t.match(after('died', 'signal SIGSEGV'), { error: { code: 'model_unusable', message: 'The engine process died while loading the model (signal SIGSEGV).' } });
  const other = start(t, false);
  for (let times = 1; times < 5; times++) t.match(other.after('terminated'), { delayMs: 0, error: undefined });
  t.match(other.after('terminated', 'signal SIGTERM'), { error: { code: 'model_unusable', message: 'The engine process was ended 5 times while loading the model (signal SIGTERM).' } });
  t.match(start(t, false).after('died', 'signal SIGKILL', true), { error: { code: 'model_unusable', message: /made no progress while loading/ } });
  t.end();
});

t.test('a shortage at the first load is waited for a little', (t) => {
  const { after, shortage } = start(t, false);
  shortage(2_000, 'could not start: EAGAIN');
  t.match(after('unstarted', 'could not start: EAGAIN'), { error: { code: 'model_crashed', message: /^For [23] s, the engine process could not start: EAGAIN\.$/ } });
  t.end();
});

t.test('a load that fails with an error is tried once more, then with growing pauses while requests fail', (t) => {
  const error = new RecuaError('model_not_found', 'There is no file model.gguf.');
  t.strictSame(start(t, false).restarts.refused(error), { delayMs: 0, error }, 'the first load fails for good');
  const { restarts } = start(t);
  t.strictSame(restarts.refused(error), { delayMs: 1_000 });
  t.strictSame(Array.from({ length: 6 }, () => restarts.refused(error).delayMs), [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  t.equal(restarts.refused(error).error, error);
  restarts.loaded();
  t.strictSame(restarts.refused(error), { delayMs: 1_000 });
  t.end();
});
