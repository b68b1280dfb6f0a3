import t from 'tap';
import { Suspects } from '#recua/engine/gateway/suspects.js';
import type { PendingRequest } from '#recua/engine/gateway/pending-request.js';

/** A request that was sent to a process and not yet heard of. */
function sent(): PendingRequest {
  return { type: 'chat', asked: ['Hello'], sent: true, accepted: false, begun: false, deaths: 0, resume: () => undefined } as unknown as PendingRequest;
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
