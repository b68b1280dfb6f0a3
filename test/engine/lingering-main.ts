// Entry of an engine process that reports a failure and does not end. Its error holds its process
// id. Forked by odd-messages.test.
import { connect } from '#recua/engine/process/host.js';

const channel = connect({
  message: (message) => {
    if ((message as { type: string }).type === 'load') channel.send({ type: 'failed', error: { code: 'model_unusable', message: `${process.pid}` } });
  },
  closed: () => {},
});
setInterval(() => {}, 1_000);
