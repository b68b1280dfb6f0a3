// Entry of an engine process that loads nothing: its error holds the options it got. Forked by
// pool.test.
import { connect } from '#recua/engine/process/host.js';

const channel = connect({
  message: (message) => {
    const { type, options } = message as { type: string; options?: { cacheRamMib: number } };
    if (type !== 'load') return;
    channel.send({ type: 'failed', error: { code: 'model_unusable', message: `cacheRamMib is ${options!.cacheRamMib}` } }, () => process.exit());
  },
  closed: () => process.exit(),
});
