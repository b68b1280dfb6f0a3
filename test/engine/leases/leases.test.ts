import t from 'tap';
import { random } from '../requests.js';
import { Leases } from '#recua/engine/leases/leases.js';
import { SimulatedMachine, type Asked, type SimulatedModel } from './simulated-machine.js';

function model(id: string, bytes: number, more: Partial<SimulatedModel> = {}): SimulatedModel {
  return {
    id, need: { memory: bytes }, fingerprint: `${id} 1`, keepAliveMs: 600_000, pinned: false, mostWaiting: 1000,
    load: () => ({ ms: 1000 }), unloadMs: () => 100, ...more,
  };
}

const machine = (memory: number, models: SimulatedModel[], maxModels = 0) => new SimulatedMachine({ bytes: { memory }, maxModels }, models);

/** Sequential requests, each sent as soon as the last is done. */
function client(m: SimulatedMachine, of: SimulatedModel, count: number, runMs: number, thinkMs = 5): Asked[] {
  const asked: Asked[] = [];
  const next = (): void => {
    const one = m.ask(of, runMs);
    asked.push(one);
    const look = (): void => {
      if (m.waits(one)) m.at(m.nowMs + 1, look);
      else if (asked.length < count) m.at((one.grantedMs ?? m.nowMs) + runMs + thinkMs, next);
    };
    look();
  };
  next();
  return asked;
}

t.test('two models that fit together are loaded at once, each once, and leave when their time is up', (t) => {
  const models = [model('a', 4, { keepAliveMs: 5000 }), model('b', 4, { keepAliveMs: Infinity })];
  const m = machine(8, models);
  for (let i = 0; i < 10; i++) for (const one of models) m.ask(one, 100);
  m.run();
  t.strictSame(m.breaches, []);
  t.equal(m.counts.grant, 20);
  t.equal(m.counts.load, 2);
  t.strictSame([...m.processes.keys()], ['b'], 'the one without an end stays');
  t.end();
});

t.test('two clients that alternate between two models with room for one are all served, with few swaps and bounded waits', (t) => {
  const models = [model('a', 6), model('b', 6)];
  const m = machine(10, models);
  const asked = [client(m, models[0]!, 100, 200), client(m, models[1]!, 100, 200)];
  m.run(300_000);
  t.strictSame(m.breaches, []);
  const all = asked.flat();
  t.equal(all.filter((one) => one.grantedMs !== undefined).length, 200);
  t.ok(m.counts.load <= 12, `${m.counts.load} loads for 200 requests`);
  const longest = Math.max(...all.map((one) => one.grantedMs! - one.atMs));
  // Another model's turn, its last request, its end and a load.
  t.ok(longest <= 10_000 + 200 + 100 + 1000 + 50, `the longest wait was ${longest} ms`);
  t.ok(Math.max(...all.map((one) => one.overtaken)) >= 10, 'the model that is loaded serves on while another waits');
  t.end();
});

t.test('a turn ends after a number of requests if swapping is cheap', (t) => {
  const models = [model('a', 6, { load: () => ({ ms: 100 }) }), model('b', 6, { load: () => ({ ms: 100 }) })];
  const m = machine(10, models);
  const clients = [client(m, models[0]!, 100, 20, 1), client(m, models[1]!, 100, 20, 1)];
  m.run(300_000);
  const asked = clients.flat();
  t.strictSame(m.breaches, []);
  t.equal(asked.filter((one) => one.grantedMs !== undefined).length, 200);
  t.ok(Math.max(...asked.map((one) => one.overtaken)) <= 40, 'nobody waits for more than a turn of others');
  t.end();
});

t.test('a model that must leave takes no new requests, however many arrive', (t) => {
  const models = [model('a', 6), model('b', 6)];
  const m = machine(10, models);
  // Their work overlaps, so the model is never idle by itself.
  const steady = [500, 510, 520].flatMap((runMs) => [client(m, models[0]!, 1000, runMs, 0)]);
  m.run(2000);
  const other = m.ask(models[1]!, 10);
  m.run(60_000);
  t.ok(steady.every((asked) => asked.length > 10));
  t.ok(other.grantedMs, 'the other model had its turn');
  t.ok(other.grantedMs! - other.atMs <= 10_000 + 520 + 100 + 1000 + 50, `after ${other.grantedMs! - other.atMs} ms`);
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('the evicted model is long idle, cheap to reload and no larger than needed; pinned ones stay', (t) => {
  const models = [
    model('pinned', 2, { pinned: true, keepAliveMs: 0 }), model('dear', 3, { load: () => ({ ms: 60_000 }) }), model('cheap', 3),
    model('busy', 2), model('new', 3),
  ];
  const m = machine(10, models);
  for (const one of models.slice(0, 3)) {
    m.ask(one, 10);
    m.run(m.nowMs + 100_000);
  }
  m.ask(models[3]!, 1_000_000);
  m.run(m.nowMs + 10_000);
  m.ask(models[4]!, 10);
  m.run(m.nowMs + 5000);
  t.strictSame([...m.processes.keys()].sort(), ['busy', 'dear', 'new', 'pinned'], 'the dear one was idle for longer and stays');
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('a model that can never fit is refused at once with what it needs and what there is', (t) => {
  const models = [model('pinned', 6, { pinned: true }), model('large', 11), model('beside', 6)];
  const m = machine(10, models);
  t.match(m.ask(models[1]!, 1).refused, { kind: 'too_large', need: { memory: 11 }, budget: { memory: 10 }, pinned: { memory: 0 } });
  const early = m.ask(models[2]!, 1);
  t.notOk(early.refused, 'as long as nothing is pinned there');
  m.run(700_000);
  m.ask(models[0]!, 1);
  t.match(m.ask(models[2]!, 1).refused, { kind: 'too_large', pinned: { memory: 6 }, pinnedModels: 1 });
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('a failed load is reported to all its requests, and tried again only after a change', (t) => {
  let fails = true;
  const bad = model('bad', 4, { load: () => ({ ms: 100, fails }) });
  const good = model('good', 4, { keepAliveMs: 0 });
  const m = machine(10, [bad, good]);
  const both = [m.ask(bad, 1), m.ask(bad, 1)];
  m.run();
  for (const one of both) t.match(one.refused, { kind: 'failed', error: { code: 'model_unusable' } });
  t.match(m.ask(bad, 1).refused, { kind: 'failed' });
  t.equal(m.counts.load, 1, 'not tried again');

  let before = m.counts.load;
  const tried = (why: string) => {
    m.run();
    t.equal(m.counts.load, before + 1, why);
    before = m.counts.load;
  };
  m.ask(bad, 1, { explicit: true });
  tried('an explicit load');
  bad.fingerprint = 'bad 2';
  m.ask(bad, 1);
  tried('another file');
  t.match(m.ask(bad, 1).refused, { kind: 'failed' });
  m.ask(good, 1);
  m.run();
  before++;
  m.ask(bad, 1);
  tried('another model was unloaded');
  const retryAtMs = m.leases.model('bad')!.failure!.retryAtMs;
  t.ok(retryAtMs - m.nowMs > 10_000, 'the pause has grown');
  m.nowMs = retryAtMs;
  fails = false;
  const served = m.ask(bad, 1);
  tried('the pause is over');
  t.ok(served.grantedMs);
  t.equal(m.leases.model('bad')!.failure, undefined);
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('an unload waits for running requests, and a later request loads the model again', (t) => {
  const a = model('a', 4);
  const m = machine(10, [a]);
  m.ask(a, 5000);
  m.run(2000);
  m.tell({ kind: 'unload', model: 'a' });
  const later = m.ask(a, 10);
  m.run(4000);
  t.equal(m.counts.unload, 0);
  t.notOk(later.grantedMs);
  m.run(20_000);
  t.ok(later.grantedMs! > 6000, 'by a second load');
  t.equal(m.counts.load, 2);
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('a load\'s keep-alive counts for later requests, until the model is unloaded', (t) => {
  const a = model('a', 4, { keepAliveMs: 1_000 });
  const m = machine(10, [a]);
  m.ask(a, 0, { explicit: true, keepAliveMs: Infinity });
  m.ask(a, 10);
  m.run(m.nowMs + 500_000);
  t.equal(m.processes.size, 1);
  m.ask(a, 10, { keepAliveMs: 5_000 });
  m.run(m.nowMs + 3_000);
  t.equal(m.processes.size, 1);
  m.run(m.nowMs + 10_000);
  t.equal(m.processes.size, 0, 'a request may still ask for less');
  m.ask(a, 10);
  m.run(m.nowMs + 20_000);
  t.equal(m.processes.size, 0, 'the next load is as the model is set');
  t.end();
});

t.test('a request\'s keep-alive counts until the next request', (t) => {
  const a = model('a', 4);
  const m = machine(10, [a]);
  m.ask(a, 10, { keepAliveMs: 0 });
  m.run();
  t.equal(m.processes.size, 0, 'gone as soon as it is done');
  m.ask(a, 10, { keepAliveMs: Infinity });
  m.run();
  t.equal(m.processes.size, 1, 'for ever');
  m.ask(a, 10);
  m.run(m.nowMs + 500_000);
  t.equal(m.processes.size, 1, 'as the model is set');
  m.run();
  t.equal(m.processes.size, 0);
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('a model that took more memory than expected evicts idle ones', (t) => {
  const models = [model('a', 4), model('b', 4, { takes: 8 })];
  const m = machine(10, models);
  m.ask(models[0]!, 10);
  m.run(5000);
  m.ask(models[1]!, 100_000);
  m.run(10_000);
  t.strictSame([...m.processes.keys()], ['b']);
  t.strictSame(m.leases.model('b')!.need, { memory: 8 });
  t.end();
});

t.test('a small model does not wait behind a waiting large one, and the large one does not wait forever', (t) => {
  const models = [model('busy', 6), model('large', 8), ...Array.from({ length: 4 }, (_, i) => model(`small ${i}`, 2))];
  const m = machine(10, models);
  m.ask(models[0]!, 60_000);
  m.run(2000);
  const large = m.ask(models[1]!, 10);
  const small = m.ask(models[2]!, 10);
  m.run(4000);
  t.ok(small.grantedMs, 'there was room for it');
  for (const one of models.slice(2)) client(m, one, 2000, 100);
  m.run(120_000);
  t.ok(large.grantedMs! < 61_000 + 10_000 + 1500, `the large one got its room at ${large.grantedMs} ms`);
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('only one model of a group is loaded at a time, even if memory would hold all; others stay', (t) => {
  const models = [model('chat', 1, { group: 'large' }), model('code', 1, { group: 'large' }), model('embed', 1)];
  const m = machine(10, models);
  m.ask(models[2]!, 10);
  m.run(5_000);
  const clients = [client(m, models[0]!, 20, 50), client(m, models[1]!, 20, 50)];
  m.run(300_000);
  t.strictSame(m.breaches, []);
  t.equal(clients.flat().filter((one) => one.grantedMs !== undefined).length, 40);
  t.ok(m.counts.load > 2, 'they took turns');
  t.equal(m.processes.get('embed')?.life, 0, 'the one of no group was never unloaded');
  t.end();
});

t.test('a pinned model keeps the others of its group out, and their requests are told', (t) => {
  const models = [model('chat', 1, { group: 'large', pinned: true }), model('code', 1, { group: 'large' })];
  const m = machine(10, models);
  m.ask(models[0]!, 10);
  m.run(5_000);
  t.match(m.ask(models[1]!, 10).refused, { kind: 'too_large', need: { 'group large': 1 }, pinned: { 'group large': 1 } });
  t.end();
});

t.test('memory that other programs use limits a load: an idle model is evicted for it, and one that cannot fit is refused', (t) => {
  const models = [model('a', 4), model('b', 4), model('c', 6), model('busy', 4)];
  const m = machine(10, models);
  m.foreign = 0;
  m.ask(models[0]!, 10);
  m.run(5_000);
  m.foreign = 5;
  const b = m.ask(models[1]!, 10);
  t.notOk(b.refused);
  m.run(10_000);
  t.ok(b.grantedMs);
  t.strictSame([...m.processes.keys()], ['b'], 'the budget would have held both');
  t.match(m.ask(models[2]!, 10).refused, { kind: 'too_large', need: { memory: 6 }, budget: { memory: 10 }, left: { memory: 5 } });
  t.strictSame([...m.processes.keys()], ['b'], 'nothing leaves in vain');
  m.ask(models[1]!, 20_000);
  m.run(11_000);
  const waits = m.ask(models[3]!, 10);
  t.notOk(waits.refused, 'there is room for it when the other has left');
  m.foreign = 0;
  const c = m.ask(models[2]!, 10);
  m.run(100_000);
  t.ok(waits.grantedMs && c.grantedMs, 'the other program is gone');
  t.strictSame(m.breaches, []);
  t.end();
});

t.test('a tick that comes too early is followed by another', (t) => {
  const leases = new Leases({ bytes: { memory: 10 }, maxModels: 0 });
  const plan = { need: { memory: 1 }, fingerprint: '1', keepAliveMs: 5_000, pinned: false, mostWaiting: 1 };
  leases.handle({ kind: 'planned', model: 'a', plan }, 0);
  t.match(leases.handle({ kind: 'request', model: 'a', request: 1 }, 0), [{ kind: 'load' }]);
  t.match(leases.handle({ kind: 'loaded', model: 'a' }, 1_000), [{ kind: 'grant' }]);
  t.match(leases.handle({ kind: 'release', model: 'a', request: 1 }, 2_000), [{ kind: 'wake', atMs: 7_000 }]);
  t.match(leases.handle({ kind: 'tick' }, 6_999.5), [{ kind: 'wake', atMs: 7_000 }], 'who told of it has no other');
  t.match(leases.handle({ kind: 'tick' }, 7_000), [{ kind: 'unload', model: 'a' }]);
  t.end();
});

t.test('while a model loads, a client that fills its queue keeps no other out', (t) => {
  const leases = new Leases({ bytes: { memory: 10 }, maxModels: 0 });
  leases.handle({ kind: 'planned', model: 'a', plan: { need: { memory: 1 }, fingerprint: '1', keepAliveMs: 5_000, pinned: false, mostWaiting: 4 } }, 0);
  const ask = (request: number, client?: string) => leases.handle({ kind: 'request', model: 'a', request, client }, 0);
  for (let request = 1; request <= 4; request++) ask(request, 'many');
  t.match(ask(5, 'many'), [{ kind: 'refuse', request: 5, why: { kind: 'queue_full', most: 4 } }]);
  t.strictSame(ask(6, 'few'), [{ kind: 'refuse', model: 'a', request: 4, why: { kind: 'gave_way' } }]);
  t.strictSame(ask(7, 'few'), [{ kind: 'refuse', model: 'a', request: 3, why: { kind: 'gave_way' } }]);
  t.match(ask(8, 'few'), [{ kind: 'refuse', request: 8, why: { kind: 'queue_full' } }], 'each has half of it');
  t.match(leases.handle({ kind: 'loaded', model: 'a' }, 1_000), [1, 2, 6, 7].map((request) => ({ kind: 'grant', request })));
  t.end();
});

t.test('while a model loads, idle work takes no place from others', (t) => {
  const leases = new Leases({ bytes: { memory: 10 }, maxModels: 0 });
  leases.handle({ kind: 'planned', model: 'a', plan: { need: { memory: 1 }, fingerprint: '1', keepAliveMs: 5_000, pinned: false, mostWaiting: 2 } }, 0);
  const ask = (request: number, priority: number, client = 'one') => leases.handle({ kind: 'request', model: 'a', request, client, priority }, 0);
  for (const request of [1, 2]) ask(request, -1);
  t.match(ask(3, -1), [{ kind: 'refuse', request: 3, why: { kind: 'queue_full', most: 2 } }]);
  for (const [request, priority] of [[4, 0], [5, 1]] as const) t.strictSame(ask(request, priority), []);
  t.match(ask(6, 0), [{ kind: 'refuse', request: 6, why: { kind: 'queue_full' } }]);
  t.match(ask(7, -1, 'other'), [{ kind: 'refuse', request: 2, why: { kind: 'gave_way' } }], 'idle work makes room for idle work');
  t.match(leases.handle({ kind: 'loaded', model: 'a' }, 1_000), [1, 4, 5, 7].map((request) => ({ kind: 'grant', request })));
  t.end();
});

const most = { loadMs: 3000, runMs: 2000, unloadMs: 500, models: 6 };
/**
 * Each other model may have its turn first: it lasts two swaps or ten seconds, until its last
 * request is done, and a load follows.
 */
const boundMs = most.models * (Math.max(10_000, 4 * most.loadMs) + most.runMs + most.unloadMs + most.loadMs);

t.test('a model that must leave is recalled once from requests that have not begun, which no full queue refuses', (t) => {
  const leases = new Leases({ bytes: { memory: 10 }, maxModels: 0 });
  const plan = { need: { memory: 6 }, fingerprint: '1', keepAliveMs: 1_000, pinned: false, mostWaiting: 2 };
  for (const id of ['a', 'b']) leases.handle({ kind: 'planned', model: id, plan }, 0);
  leases.handle({ kind: 'request', model: 'a', request: 1 }, 0);
  leases.handle({ kind: 'request', model: 'a', request: 2 }, 0);
  t.match(leases.handle({ kind: 'loaded', model: 'a' }, 500), [{ kind: 'grant', request: 1 }, { kind: 'grant', request: 2 }]);
  leases.handle({ kind: 'request', model: 'b', request: 3 }, 1_000);
  t.strictSame(leases.handle({ kind: 'tick' }, 20_000), [{ kind: 'recall', model: 'a' }]);
  t.strictSame(leases.handle({ kind: 'tick' }, 20_001), [], 'once');
  t.strictSame(leases.handle({ kind: 'cancel', model: 'b', request: 3 }, 20_001).filter(({ kind }) => kind !== 'wake'), [{ kind: 'stay', model: 'a' }]);
  leases.handle({ kind: 'request', model: 'b', request: 3 }, 20_001);
  t.match(leases.handle({ kind: 'tick' }, 40_001), [{ kind: 'recall', model: 'a' }]);
  leases.handle({ kind: 'request', model: 'a', request: 4 }, 40_002);
  leases.handle({ kind: 'request', model: 'a', request: 5 }, 40_002);
  leases.handle({ kind: 'release', model: 'a', request: 2 }, 40_003);
  t.strictSame(leases.handle({ kind: 'request', model: 'a', request: 6, again: true }, 40_003), []);
  t.strictSame(leases.handle({ kind: 'release', model: 'a', request: 1 }, 40_004), [{ kind: 'unload', model: 'a' }]);
  t.match(leases.handle({ kind: 'ended', model: 'a' }, 40_005), [{ kind: 'load', model: 'b' }]);
  t.match(leases.handle({ kind: 'loaded', model: 'b' }, 40_500), [{ kind: 'grant', model: 'b', request: 3 }]);
  t.end();
});

t.test('a turn lasts as long if a crowd was granted at once and recalled', (t) => {
  const leases = new Leases({ bytes: { memory: 10 }, maxModels: 0 });
  const plan = { need: { memory: 6 }, fingerprint: '1', keepAliveMs: 1_000, pinned: false, mostWaiting: 100 };
  for (const id of ['a', 'b']) leases.handle({ kind: 'planned', model: id, plan }, 0);
  for (let request = 0; request < 40; request++) leases.handle({ kind: 'request', model: 'a', request }, 0);
  leases.handle({ kind: 'request', model: 'b', request: 100 }, 0);
  t.equal(leases.handle({ kind: 'loaded', model: 'a' }, 500).filter(({ kind }) => kind === 'grant').length, 40);
  const recalledAt = (nowMs: number): boolean => leases.handle({ kind: 'tick' }, nowMs).some(({ kind }) => kind === 'recall');
  t.equal(recalledAt(9_000), false, 'no request was served');
  t.equal(recalledAt(10_600), true);
  t.equal(leases.handle({ kind: 'request', model: 'a', request: 200, client: 'other' }, 10_601).length, 0);
  for (let request = 0; request < 40; request++) leases.handle({ kind: 'release', model: 'a', request }, 10_602);
  for (let request = 300; request < 399; request++) leases.handle({ kind: 'request', model: 'a', request, again: true }, 10_603);
  const asks = (request: number, client: string) => leases.handle({ kind: 'request', model: 'a', request, client }, 10_604);
  t.match(asks(400, ''), [{ kind: 'refuse', request: 400, why: { kind: 'queue_full', most: 100 } }], 'the client of those that were recalled');
  for (let request = 500; request < 550; request++) t.strictSame(asks(request, 'third'), [], 'another client gets in');
  for (let request = 550; request < 599; request++) t.strictSame(asks(request, 'other'), []);
  t.match(asks(600, 'fourth'), [{ kind: 'refuse', request: 600 }], 'no more than the queue holds');
  t.end();
});

t.test('500 random histories: nothing waits forever, is loaded twice, is evicted in use or exceeds the budget', (t) => {
  const total = { load: 0, unload: 0, grant: 0, refuse: 0, wake: 0, died: 0 };
  for (let seed = 1; seed <= 500; seed++) {
    const m = history(seed);
    for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += m.counts[key];
    const stuck = m.waiting.map((one) => `request ${one.id} for ${one.model} waits for ever`);
    const waits = [...m.asked.values()].filter((one) => one.grantedMs !== undefined && one.grantedMs - one.atMs > boundMs)
      .map((one) => `request ${one.id} waited ${one.grantedMs! - one.atMs} ms`);
    const wrong = [...m.breaches, ...stuck, ...waits];
    if (wrong.length === 0) continue;
    t.strictSame(wrong, [], `seed ${seed}`);
    t.comment(m.log.slice(-40).join('\n'));
    break;
  }
  for (const [what, count] of Object.entries(total)) t.ok(count > 200, `${count} times ${what}`);
  t.end();
});

function history(seed: number): SimulatedMachine {
  const chance = random(seed);
  const int = (below: number) => Math.floor(chance() * below);
  const pick = <T>(from: readonly T[]): T => from[int(from.length)]!;
  const models = Array.from({ length: 2 + int(most.models - 1) }, (_, i) => model(`m${i}`, 1 + int(7), {
    pinned: chance() < 0.1, keepAliveMs: pick([0, 500, 20_000, 600_000, Infinity]), mostWaiting: pick([3, 1000]),
    load: () => ({ ms: 1 + int(most.loadMs), fails: chance() < 0.1 }), unloadMs: () => 1 + int(most.unloadMs),
    ...(chance() < 0.15 ? { takes: 1 + int(11) } : {}), group: pick([undefined, undefined, undefined, 'one', 'two']),
  }));
  const m = machine(6 + int(5), models, pick([0, 0, 0, 1, 2]));
  if (chance() < 0.5) m.foreign = 0;
  const rush = pick([20, 200, 2000]);
  let atMs = 0;
  for (let i = 0; i < 60; i++) {
    atMs += int(rush);
    m.at(atMs, () => {
      const one = pick(models);
      const dice = chance();
      if (dice < 0.6)
        m.ask(one, 1 + int(most.runMs), {
          explicit: chance() < 0.1,
          ...(chance() < 0.2 ? { keepAliveMs: pick([0, 1000, Infinity]) } : {}),
        });
      else if (dice < 0.7) {
        if (m.waiting.length > 0) m.cancel(pick(m.waiting));
      } else if (dice < 0.78) m.crash(one);
      else if (dice < 0.86) {
        if (m.leases.model(one.id)) m.tell({ kind: 'unload', model: one.id });
      } else if (dice < 0.9) one.fingerprint = `${one.id} ${i}`;
      else if (dice < 0.94) m.foreign = m.foreign === undefined ? undefined : int(6);
      else m.tell({ kind: 'tick' });
    });
  }
  m.run();
  return m;
}
