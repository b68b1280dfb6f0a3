import t from 'tap';
import { EngineRequests } from '#recua/engine/gateway/requests.js';
import { Suspects } from '#recua/engine/gateway/suspects.js';
import type { PendingRequest } from '#recua/engine/gateway/pending-request.js';

/** A request that was sent to a process and not yet heard of. */
function sent(survives = true, fingerprint = 'Hello'): PendingRequest {
  return { type: 'chat', fingerprint, survives, sent: true, accepted: false, begun: false, deaths: 0, wasStuck: false, resume: () => undefined } as unknown as PendingRequest;
}

t.test('a request that was sent to two processes that died is guilty', (t) => {
  const suspects = new Suspects();
  const call = sent();
  t.strictSame(suspects.judge([call], false), []);
  call.sent = true;
  t.strictSame(suspects.judge([call], false), [call]);
  t.match(suspects.refusal(sent()), { code: 'request_set_aside' });
  t.end();
});

t.test('a process that got stuck is one death, and makes suspects at once', (t) => {
  const suspects = new Suspects();
  const [call, other] = [sent(), sent(true, 'beside')];
  t.strictSame(suspects.judge([call, other], false, 'process'), [], 'one of the two');
  const tried = suspects.next(() => true)!;
  tried.sent = true;
  t.strictSame(suspects.judge([call, other], false), [tried]);
  t.equal(tried.deaths, 2);
  t.equal(suspects.next(() => true), call === tried ? other : call);
  t.strictSame(suspects.judge([Object.assign(sent(), { deaths: 1 })], false, 'compute'), [], 'it waits for its first step');
  const alone = sent(true, 'alone');
  t.strictSame(suspects.judge([alone], false, 'pool'), [alone]);
  t.equal(alone.deaths, 1);
  t.end();
});

t.test('a suspect is not to blame for a process that never had it', (t) => {
  const suspects = new Suspects();
  const [call, other] = [sent(), sent()];
  for (let times = 0; times < 2; times++) {
    call.sent = other.sent = true;
    t.strictSame(suspects.judge([call, other], false), []);
  }
  const tried = suspects.next(() => true)!;
  tried.sent = true;
  t.strictSame(suspects.judge([call, other], true), [], 'the process was ended by somebody');
  t.strictSame(suspects.judge([call, other], false), [], 'the next one died while it loaded');
  t.equal(suspects.refusal(sent()), undefined);
  t.equal(suspects.next(() => true), tried, 'it is tried again');
  tried.sent = true;
  t.strictSame(suspects.judge([call, other], false), [tried]);
  t.end();
});

t.test('another file of the model may not die of the same', (t) => {
  const suspects = new Suspects();
  const call = Object.assign(sent(), { startOver: () => undefined });
  for (const guilty of [[], [call]]) {
    call.sent = true;
    t.strictSame(suspects.judge([call], false), guilty);
  }
  const doubted = sent(false, 'long');
  suspects.judge([doubted], false);
  suspects.startOver([call]);
  t.equal(suspects.refusal(sent()), undefined);
  const next = sent(true, 'long');
  suspects.refusal(next);
  t.equal(next.deaths, 0);
  t.equal(suspects.next(() => true), undefined);
  t.end();
});

t.test('of requests that cannot continue, the next equal one is a suspect', (t) => {
  const suspects = new Suspects();
  const beside = sent(true, 'beside');
  for (let times = 0; times < 2; times++) {
    const long = sent(false);
    t.equal(suspects.refusal(long), undefined);
    beside.sent = true;
    t.strictSame(suspects.judge([beside, long], false), [], 'one of the two');
  }
  t.equal(suspects.refusal(beside), undefined);
  const again = sent();
  t.equal(suspects.refusal(again), undefined);
  t.strictSame(suspects.judge([again], false), [again]);
  t.match(suspects.refusal(sent()), { code: 'request_set_aside' });
  t.end();
});

t.test('a request that was answered clears the equal ones', (t) => {
  const suspects = new Suspects();
  const long = sent(false);
  t.strictSame(suspects.judge([long, sent(true, 'beside')], false), []);
  const next = sent();
  t.equal(suspects.refusal(next), undefined);
  suspects.acquit(next);
  const last = sent();
  suspects.refusal(last);
  t.strictSame(suspects.judge([last], false), [], 'once is no proof');
  t.end();
});

t.test('so does one whose answer goes on', (t) => {
  const suspects = new Suspects();
  t.strictSame(suspects.judge([sent(false), sent(true, 'beside')], false), []);
  const next = Object.assign(sent(), { lengthAtDeath: 0, soFar: { length: 64 } });
  t.equal(suspects.refusal(next), undefined);
  const isCleared = (): boolean => suspects.isCleared(next as unknown as PendingRequest);
  t.strictSame([isCleared(), isCleared()], [true, false], 'once');
  const last = sent();
  t.equal(suspects.refusal(last), undefined);
  t.strictSame(suspects.judge([last], false), [], 'its first death');
  t.end();
});

t.test('one that the engine refused does not', async (t) => {
  const suspects = new Suspects();
  /** A gateway whose engine process is this test. */
  class Requests extends EngineRequests {
    readonly state = { state: 'ready', fraction: 1 } as unknown as EngineRequests['state'];
    readonly tokensPerSecond = 0;
    readonly crashes = 0;
    readonly pid = undefined;
    latest: PendingRequest | undefined;

    async ready(): Promise<never> {
      throw new Error('nobody asks');
    }

    async close(): Promise<void> {}

    protected refusal() {
      return undefined;
    }

    protected withdraw(): void {}
    protected endThinking(): void {}

    protected submit(call: PendingRequest): void {
      this.latest = call;
      suspects.refusal(call);
      call.deliver((_message, gone) => void gone());
    }

    protected override survived(call: PendingRequest): void {
      suspects.acquit(call);
    }

    tell(event: Parameters<EngineRequests['dispatch']>[0]): void {
      this.dispatch(event);
    }
  }
  const requests = new Requests();
  const inputs = Array.from({ length: 50_000 }, () => 'x'.repeat(100));
  const ask = () => {
    const failed = requests.embed({ inputs }).then(() => '', ({ code }: { code: string }) => code);
    return { failed, call: requests.latest! };
  };
  const first = ask();
  requests.tell({ id: first.call.id, kind: 'started' });
  t.equal(first.call.survives, false, 'its text is gone');
  suspects.judge([first.call], false);
  const error = { code: 'queue_full', message: 'The queue is full.' } as const;
  requests.tell({ id: first.call.id, kind: 'error', error });
  const second = ask();
  t.equal(second.call.deaths, 1);
  requests.tell({ id: second.call.id, kind: 'error', error });
  t.equal(await second.failed, 'queue_full');
  t.equal(ask().call.deaths, 1, 'still doubted');
});

t.test('it is not to blame for processes that ended by themselves', (t) => {
  const suspects = new Suspects();
  const call = sent();
  for (let times = 0; times < 5; times++) {
    call.sent = true;
    t.strictSame(suspects.judge([call], true), []);
    t.equal(call.sent, false, 'it is sent again');
  }
  t.equal(suspects.refusal(sent()), undefined);
  t.end();
});
